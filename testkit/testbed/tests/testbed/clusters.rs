//! Private clusters: stopped, crashed, followed, promoted, in another time and place.

use std::path::Path;

use postroom_testbed::proxy::Mode;
use postroom_testbed::{Cluster, ClusterOptions, FaultProxy, Process, Servers, faketime, unique_name};
use sqlx::{Connection, PgConnection};

use super::{ask, connect, run};

const IDENTITY: &str = "select system_identifier::text from pg_control_system()";

#[tokio::test]
async fn a_killed_cluster_keeps_what_was_committed() {
    let cluster = Cluster::start(&[("max_connections", "10")]).await;
    let mut connection = connect(&cluster.url("postgres")).await;
    assert_eq!(ask::<String>(&mut connection, "show max_connections").await, "10");
    // The shared servers may be without it; what is crashed must not be.
    assert_eq!(ask::<String>(&mut connection, "show fsync").await, "on");
    run(&mut connection, "create table note (text text)").await;
    run(&mut connection, "insert into note values ('committed')").await;
    run(&mut connection, "begin").await;
    run(&mut connection, "insert into note values ('open')").await;
    cluster.kill_postmaster().await;
    connection.ping().await.unwrap_err();
    PgConnection::connect(&cluster.url("postgres")).await.unwrap_err();
    cluster.start_again().await;
    let mut connection = connect(&cluster.url("postgres")).await;
    assert_eq!(ask::<String>(&mut connection, "select string_agg(text, ',') from note").await, "committed");
}

#[tokio::test]
async fn a_stopped_cluster_comes_back_on_its_port() {
    let cluster = Cluster::start(&[]).await;
    let open = connect(&cluster.url("postgres")).await;
    cluster.stop_fast().await;
    PgConnection::connect(&cluster.url("postgres")).await.unwrap_err();
    cluster.start_again().await;
    drop(open);
    connect(&cluster.url("postgres")).await.ping().await.unwrap();
}

#[tokio::test]
async fn a_promoted_standby_has_what_the_primary_told_it_and_no_more() {
    let primary = Cluster::start(&[]).await;
    let link = FaultProxy::to(primary.port()).await;
    let through_link = format!("host=127.0.0.1 port={} user=postgres", link.port());
    let settings = [("primary_conninfo", through_link.as_str())];
    let standby = Cluster::standby_of(&primary, &settings).await;
    let mut writer = connect(&primary.url("postgres")).await;
    run(&mut writer, "create table note as select 'told' as text").await;
    let mut reader = connect(&standby.url("postgres")).await;
    assert!(ask::<bool>(&mut reader, "select pg_is_in_recovery()").await);
    while !ask::<bool>(&mut reader, "select to_regclass('note') is not null").await {}
    assert_eq!(ask::<String>(&mut reader, "select text from note").await, "told");
    link.set(Mode::Refuse).await;
    run(&mut writer, "insert into note values ('untold')").await;
    primary.kill_postmaster().await;
    standby.promote().await;
    assert!(!ask::<bool>(&mut reader, "select pg_is_in_recovery()").await);
    run(&mut reader, "insert into note values ('after')").await;
    assert_eq!(ask::<String>(&mut reader, "select string_agg(text, ',') from note").await, "told,after");
}

#[tokio::test]
async fn a_cluster_can_live_in_another_time() {
    let environment = faketime("+10d");
    let cluster = Cluster::start_with(ClusterOptions { environment, ..Default::default() }).await;
    let mut there = connect(&cluster.url("postgres")).await;
    let mut here = connect(&Servers::find().postgres_url("postgres")).await;
    let now = "select extract(epoch from now())::bigint";
    let ahead = ask::<i64>(&mut there, now).await - ask::<i64>(&mut here, now).await;
    assert!((863_900..=864_100).contains(&ahead), "{ahead} seconds ahead");
}

#[tokio::test]
async fn a_cluster_can_live_in_a_given_folder_with_an_identity_of_its_own() {
    let folder = std::env::temp_dir().join(unique_name("postroom-data"));
    let options = ClusterOptions { data: Some(folder.clone()), own_identity: true, ..Default::default() };
    let cluster = Cluster::start_with(options).await;
    let mut there = connect(&cluster.url("postgres")).await;
    let mut here = connect(&Servers::find().postgres_url("postgres")).await;
    assert_ne!(ask::<String>(&mut there, IDENTITY).await, ask::<String>(&mut here, IDENTITY).await);
    assert!(folder.join("PG_VERSION").is_file());
    drop(cluster);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn a_cluster_that_is_dropped_leaves_nothing() {
    let cluster = Cluster::start(&[]).await;
    let data = cluster.data().to_owned();
    let pid = std::fs::read_to_string(data.join("postmaster.pid")).unwrap();
    let process = Process::of(pid.lines().next().unwrap().parse().unwrap()).unwrap();
    assert!(process.is_running());
    drop(cluster);
    assert!(!process.is_running());
    assert!(!data.parent().is_some_and(Path::exists));
}
