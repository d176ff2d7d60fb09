//! The proxy in front of PostgreSQL: what a client knows when the connection is lost at its `COMMIT`.

use postroom_testbed::proxy::{Mode, Moment, Trigger};
use postroom_testbed::{Database, FaultProxy, Servers};
use sqlx::{Connection, Executor, PgConnection};

use super::{ask, connect, run};

struct Setting {
    proxy: FaultProxy,
    database: Database,
    /// Past the proxy.
    observer: PgConnection,
}

async fn setting() -> Setting {
    let servers = Servers::find();
    let database = Database::create(&servers).await;
    let proxy = FaultProxy::to_postgres(servers.port("postgres")).await;
    let mut observer = connect(&database.url()).await;
    run(&mut observer, "create table note (text text)").await;
    Setting { proxy, database, observer }
}

impl Setting {
    async fn client(&self) -> PgConnection {
        connect(&self.proxy.url(self.database.name())).await
    }

    async fn notes(&mut self) -> i64 {
        ask(&mut self.observer, "select count(*) from note").await
    }
}

/// A statement with a message of its own, or one that is prepared first and then only named.
async fn commit(client: &mut PgConnection, prepared: bool) -> Result<(), sqlx::Error> {
    let done = if prepared { sqlx::query("commit").execute(client).await } else { client.execute("COMMIT;").await };
    done.map(drop)
}

async fn lost_at_commit(prepared: bool, moment: Moment, committed: i64) {
    let mut setting = setting().await;
    let mut client = setting.client().await;
    run(&mut client, "begin").await;
    commit(&mut client, prepared).await.unwrap();
    setting.proxy.set(Mode::CutAt(Trigger::Commit, moment)).await;
    run(&mut client, "begin").await;
    sqlx::query("insert into note values ($1)").bind("commit; this is only text").execute(&mut client).await.unwrap();
    commit(&mut client, prepared).await.expect_err("the connection is cut");
    setting.proxy.until(|counts| counts.cuts == 1).await;
    assert_eq!(setting.notes().await, committed);
    // The mode goes on: connecting is possible, committing is not.
    let mut client = setting.client().await;
    run(&mut client, "begin").await;
    run(&mut client, "insert into note values ('again')").await;
    commit(&mut client, prepared).await.expect_err("the connection is cut");
    setting.proxy.until(|counts| counts.cuts == 2).await;
    assert_eq!(setting.notes().await, 2 * committed);
}

#[tokio::test]
async fn a_commit_cut_before_the_server_has_it_did_not_happen() {
    lost_at_commit(false, Moment::Before, 0).await;
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_did_happen() {
    lost_at_commit(false, Moment::AfterReply, 1).await;
}

#[tokio::test]
async fn a_prepared_commit_cut_before_the_server_has_it_did_not_happen() {
    lost_at_commit(true, Moment::Before, 0).await;
}

#[tokio::test]
async fn a_prepared_commit_whose_reply_is_lost_did_happen() {
    lost_at_commit(true, Moment::AfterReply, 1).await;
}

#[tokio::test]
async fn a_statement_that_commits_itself_can_be_cut_too() {
    for (moment, committed) in [(Moment::Before, 0), (Moment::AfterReply, 1)] {
        let mut setting = setting().await;
        let mut client = setting.client().await;
        setting.proxy.set(Mode::CutAt(Trigger::Statement("INSERT into note".to_owned()), moment)).await;
        client.ping().await.unwrap();
        let insert = sqlx::query("insert into note values ($1)").bind("x").execute(&mut client).await;
        insert.expect_err("the connection is cut");
        setting.proxy.until(|counts| counts.cuts == 1).await;
        assert_eq!(setting.notes().await, committed, "{moment:?}");
    }
}

#[tokio::test]
async fn it_reads_along_with_clients_that_first_ask_for_encryption() {
    let mut setting = setting().await;
    setting.proxy.set(Mode::CutAt(Trigger::Commit, Moment::AfterReply)).await;
    let url = setting.proxy.url(setting.database.name());
    let script = "begin; insert into note values ('x'); commit";
    let psql = tokio::task::spawn_blocking(move || {
        std::process::Command::new("psql").args(["-X", "-q", "-c", script]).arg(url).output().unwrap()
    });
    assert!(!psql.await.unwrap().status.success());
    assert_eq!(setting.proxy.counts().cuts, 1);
    assert_eq!(setting.notes().await, 1);
}
