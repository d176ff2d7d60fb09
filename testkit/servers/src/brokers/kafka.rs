//! Apache Kafka (KRaft, one node) from its published jars.
//!
//! Listeners: the plain one for everybody; `tls`; `mtls`, which wants a client's certificate; `sasl` and `sasl_tls`, where
//! [`super::USER`] may everything and [`super::LIMITED_USER`] nothing, with `PLAIN`, `SCRAM-SHA-256` and `SCRAM-SHA-512`.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::{LIMITED_USER, PASSWORD, USER};
use crate::certificates::CLIENT_NAME;
use crate::server::{Server, Site, says};
use crate::{Process, State, run};

const VERSION: &str = "4.1.1";
/// An `ApiVersions` request, version 0, correlation id 1, without a client id.
const API_VERSIONS: &[u8] = &[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];

/// A Kafka broker that is its own controller.
#[derive(Debug)]
pub struct Kafka;

impl Kafka {
    /// A command of Kafka's own tools, for instance `org.apache.kafka.tools.TopicCommand`.
    pub fn tool(class: &str) -> io::Result<Command> {
        let mut command = Command::new("java");
        command.arg("-cp").arg(Self::jars()?.join("*")).args(["-XX:TieredStopAtLevel=1", class]);
        Ok(command)
    }

    /// The folder of the jars; fetched once, beside the state of the servers, with Maven.
    fn jars() -> io::Result<PathBuf> {
        let folder = State::downloads().join(format!("kafka-{VERSION}"));
        if folder.is_dir() {
            return Ok(folder);
        }
        let new = folder.with_extension("new");
        let _ = fs::remove_dir_all(&new);
        fs::create_dir_all(&new)?;
        fs::write(new.join("pom.xml"), pom())?;
        let mut maven = Command::new("mvn");
        maven.current_dir(&new).args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
        run(maven.arg("-DoutputDirectory=jars"))?;
        fs::rename(new.join("jars"), &folder)?;
        fs::remove_dir_all(new)?;
        Ok(folder)
    }
}

impl Server for Kafka {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn listeners(&self) -> &'static [&'static str] {
        &["controller", "tls", "mtls", "sasl", "sasl_tls"]
    }

    fn prepare(&self, site: &Site, _so_far: &State) -> io::Result<()> {
        let config = site.write("server.properties", &properties(site))?;
        let mut format = Self::tool("kafka.tools.StorageTool")?;
        format.args(["format", "--standalone", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"]).arg(config);
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            for user in [USER, LIMITED_USER] {
                format.args(["--add-scram", &format!("{mechanism}=[name={user},password={PASSWORD}]")]);
            }
        }
        run(&mut format)
    }

    fn start(&self, site: &Site) -> io::Result<Process> {
        let mut command = Command::new("java");
        command.arg("-cp").arg(Self::jars()?.join("*"));
        command.args([
            "-Xmx512m",
            "-Xms128m",
            "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ]);
        command.args(["kafka.Kafka"]).arg(site.folder.join("server.properties"));
        site.spawn(&mut command, &self.log(site))
    }

    fn answers(&self, site: &Site) -> bool {
        // The length of the answer differs; its first two bytes do not.
        says(site.port, API_VERSIONS, &[0, 0])
    }

    fn log(&self, site: &Site) -> PathBuf {
        site.folder.join("kafka.log")
    }
}

fn properties(site: &Site) -> String {
    let certificates = site.certificates();
    let names = ["controller", "tls", "mtls", "sasl", "sasl_tls"];
    let at = |host: &str, names: &[&str]| -> String {
        let more = names.iter().map(|name| format!("{}://{host}:{}", name.to_uppercase(), site.port_of(name)));
        format!("PLAIN://127.0.0.1:{},{}", site.port, more.collect::<Vec<_>>().join(","))
    };
    let plain = format!(
        "org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\" user_{LIMITED_USER}=\"{PASSWORD}\";"
    );
    let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    let login = |name: &str| {
        format!(
            "listener.name.{name}.plain.sasl.jaas.config={plain}
listener.name.{name}.scram-sha-256.sasl.jaas.config={scram}
listener.name.{name}.scram-sha-512.sasl.jaas.config={scram}
"
        )
    };
    let logins = login("sasl") + &login("sasl_tls");
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAIN
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MTLS:SSL,SASL:SASL_PLAINTEXT,SASL_TLS:SASL_SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
{logins}ssl.keystore.type=PEM
ssl.keystore.location={bundle}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
listener.name.mtls.ssl.client.auth=required
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{USER};User:CN={CLIENT_NAME}
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.cleaner.enable=false
",
        controller = site.port_of("controller"),
        listeners = at("127.0.0.1", &names),
        advertised = at("localhost", &["tls", "mtls", "sasl", "sasl_tls"]),
        bundle = certificates.server_bundle().display(),
        ca = certificates.ca().display(),
        folder = site.folder.display(),
    )
}

fn pom() -> String {
    let dependency = |group: &str, name: &str, version: &str| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>
<groupId>postroom</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>{}{}{}</dependencies></project>\n",
        dependency("org.apache.kafka", "kafka_2.13", VERSION),
        dependency("org.apache.kafka", "kafka-tools", VERSION),
        dependency("org.slf4j", "slf4j-simple", "1.7.36"),
    )
}
