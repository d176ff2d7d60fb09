//! What the tests of each package need, and how they share the machine.

/// The tests of a package.
pub(super) struct Package {
    pub(super) name: &'static str,
    /// Of `cargo xtask services`.
    pub(super) servers: &'static [&'static str],
    /// Debian packages beside those of its servers; `COMMAND=PACKAGE` where the command may come from elsewhere.
    pub(super) tools: &'static [&'static str],
}

/// Those that need something. All others need nothing but a compiler.
pub(super) const PACKAGES: &[Package] = &[
    Package { name: "postroom-postgres", servers: STORE, tools: &["faketime"] },
    Package { name: "postroom-schedules", servers: &["postgres"], tools: &[] },
    Package { name: "postroom-testbed", servers: STORE, tools: &["faketime"] },
    Package { name: "postroom-kafka", servers: &["postgres", "pgbouncer", "kafka"], tools: &[] },
    Package { name: "postroom-nats", servers: &["postgres", "pgbouncer", "nats", "nats-tls"], tools: &[] },
    Package { name: "postroom-rabbitmq", servers: &["postgres", "pgbouncer", "nats", "rabbitmq"], tools: &[] },
    Package { name: "postroom-redis", servers: &["postgres", "pgbouncer", "redis"], tools: &[] },
    Package { name: "postroom-cli", servers: ALL, tools: &["curl=curl", "faketime", "groff-base", "prometheus"] },
    Package { name: "postroom-adapters", servers: &["postgres"], tools: LANGUAGES },
    Package { name: "postroom-client-packages", servers: &["postgres"], tools: CLIENTS },
    Package {
        name: "postroom-e2e",
        servers: ALL,
        tools: &["binutils", "debootstrap", "dpkg-dev", "pip3=python3-pip", "systemd"],
    },
    Package { name: "postroom-presets", servers: ALL, tools: &["curl=curl"] },
    Package {
        name: "postroom-examples",
        servers: &["postgres", "rabbitmq", "kafka"],
        tools: &[
            "curl=curl",
            "python3-venv",
            "node=nodejs",
            "npm=npm",
            "go=golang-go",
            "javac=default-jdk-headless",
            "libpostgresql-jdbc-java",
        ],
    },
    Package { name: "axum-postgres", servers: &["postgres"], tools: &[] },
    Package { name: "inbox-consumer", servers: &["postgres", "kafka"], tools: &[] },
    Package { name: "kafka-relay", servers: &["postgres", "kafka"], tools: &[] },
    Package { name: "corebilling", servers: &["postgres", "kafka", "nats"], tools: &[] },
    Package { name: "eventqueue", servers: &["postgres"], tools: &[] },
    Package { name: "m4", servers: &["postgres"], tools: &[] },
];

const STORE: &[&str] = &["postgres", "pgbouncer", "pgbouncer-debian", "postgres-14", "postgres-18"];
const ALL: &[&str] = &[
    "postgres",
    "pgbouncer",
    "pgbouncer-debian",
    "postgres-14",
    "postgres-18",
    "nats",
    "nats-tls",
    "redis",
    "rabbitmq",
    "kafka",
];
/// What the programs of docs/languages.md are written in.
const LANGUAGES: &[&str] = &[
    "python3-psycopg2",
    "libpostgresql-jdbc-java",
    "node=nodejs",
    "node=node-pg",
    "npm=npm",
    "go=golang-go",
    "javac=default-jdk-headless",
];
/// What the packages in clients/ are built and tested with.
const CLIENTS: &[&str] =
    &["pip3=python3-pip", "node=nodejs", "npm=npm", "go=golang-go", "javac=default-jdk-headless", "mvn=maven"];

/// Where a server's programs come from.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("postgres", &["postgresql"]),
    ("pgbouncer", &["pgbouncer"]),
    ("pgbouncer-debian", &["pgbouncer"]),
    ("postgres-14", &["mvn=maven", "xz-utils"]),
    ("postgres-18", &["mvn=maven", "xz-utils"]),
    ("nats", &["nats-server"]),
    ("nats-tls", &["nats-server"]),
    ("redis", &["redis-server"]),
    ("rabbitmq", &["rabbitmq-server"]),
    ("kafka", &["mvn=maven"]),
];

/// Test targets of `./run test quick`, which needs no server and no installed program, and what of them does need one.
pub(super) const QUICK: &[(&str, &[&str])] = &[
    (
        "cli",
        &["adopt::", "docs::", "doctor::", "http::", "incident::", "manual::", "postgres::", "secrets::", "support::"],
    ),
    ("conformance", &[]),
    ("exec", &[]),
    ("file", &[]),
    ("memory", &[]),
    ("payments", &[]),
    ("suite", &[]),
    ("relay", &[]),
    ("schedules", &["adopted::", "postgres::"]),
    ("server", &[]),
    ("simulation", &[]),
    ("sqlite", &[]),
    ("testing", &[]),
    ("webhook", &[]),
];

/// Programs with tests of their own, which `./run test quick` runs beside those of all libraries.
pub(super) const QUICK_PROGRAMS: &[&str] = &["postroom", "xtask"];

/// Tests of libraries that need a server.
pub(super) const WITH_SERVERS: &[(&str, &[&str])] = &[("postroom_postgres", &["database::"])];

/// Tests that are a job of their own: these of a target, and the rest of it in another job.
pub(super) struct Part {
    pub(super) target: &'static str,
    pub(super) tests: &'static str,
    pub(super) when: When,
}

/// When a part runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Beside others.
    Any,
    /// With nothing beside it: it compares times that a busy machine would change.
    Alone,
}

/// In the order in which they start: the longest first, so that none of them is left for the end.
pub(super) const PARTS: &[Part] = &[
    Part { target: "postgres", tests: "suite::", when: When::Any },
    Part { target: "e2e", tests: "brokers::", when: When::Any },
    Part { target: "postgres", tests: "adopted::", when: When::Any },
    Part { target: "postgres", tests: "hazards::", when: When::Any },
    Part { target: "e2e", tests: "fleet::", when: When::Any },
    Part { target: "e2e", tests: "package::", when: When::Any },
    Part { target: "kafka", tests: "subscription::", when: When::Any },
    Part { target: "e2e", tests: "soak::", when: When::Any },
    Part { target: "e2e", tests: "failover::", when: When::Any },
    Part { target: "presets", tests: "campaign::", when: When::Any },
    Part { target: "e2e", tests: "kill::", when: When::Any },
    Part { target: "e2e", tests: "poison::", when: When::Alone },
];

/// Targets whose other tests start before those of the rest.
pub(super) const LONG: &[&str] = &[
    "rabbitmq",
    "cli",
    "relay",
    "kafka",
    "presets",
    "simulation",
    "testbed",
    "postgres",
    "sqlite",
    "nats",
    "schedules",
    "client-packages",
    "e2e",
];

/// What these packages need of servers, in the order they start.
pub(super) fn servers(packages: &[String]) -> Vec<&'static str> {
    let needed = |server: &&str| wanted(packages).any(|package| package.servers.contains(server));
    ALL.iter().copied().filter(needed).collect()
}

/// What these packages need of Debian.
pub(super) fn tools(packages: &[String]) -> Vec<&'static str> {
    let servers = servers(packages);
    let programs = PROGRAMS.iter().filter(|(server, _)| servers.contains(server)).flat_map(|(_, programs)| *programs);
    let mut all: Vec<&str> = programs.chain(wanted(packages).flat_map(|package| package.tools)).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn wanted(packages: &[String]) -> impl Iterator<Item = &'static Package> {
    PACKAGES.iter().filter(move |package| packages.iter().any(|name| name == package.name))
}
