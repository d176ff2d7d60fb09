//! Watches a server for relays that keep a transaction open while they do something else.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Row};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Somebody who looks all the time.
#[derive(Debug)]
pub struct Watch {
    tell: mpsc::Sender<bool>,
    work: JoinHandle<Duration>,
}

impl Watch {
    /// Begins.
    pub fn start(url: &str) -> Self {
        let connect: PgConnectOptions = url.parse().unwrap();
        let (tell, told) = mpsc::channel();
        Self { tell, work: thread::spawn(move || look(&connect.application_name("watch"), &told)) }
    }

    /// Looks away while a relay is frozen: what it had open then is not its fault.
    pub fn away(&self) {
        self.tell.send(false).unwrap();
    }

    /// Looks again. What has been open counts from now.
    pub fn back(&self) {
        self.tell.send(true).unwrap();
    }

    /// How long a relay's session was idle in a transaction at most.
    pub fn stop(self) -> Duration {
        drop(self.tell);
        self.work.join().unwrap()
    }
}

fn look(url: &PgConnectOptions, told: &mpsc::Receiver<bool>) -> Duration {
    // The relays' sessions are the store's; a producer's have another name.
    let idle = "select now()::text, max(extract(epoch from now() - greatest(state_change, $1::timestamptz)))::float8 \
                from pg_stat_activity where application_name = 'postroom' and state like 'idle in transaction%'";
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut connection: Option<PgConnection> = None;
    let (mut longest, mut looks, mut since) = (Duration::ZERO, true, None::<String>);
    loop {
        match told.recv_timeout(LOOK) {
            Ok(back) => (looks, since) = (back, None),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return longest,
        }
        if !looks {
            continue;
        }
        runtime.block_on(async {
            if connection.is_none() {
                connection = url.connect().await.ok();
            }
            let Some(conn) = connection.as_mut() else { return };
            let Ok(row) = sqlx::query(idle).bind(since.as_deref()).fetch_one(conn).await else {
                connection = None;
                return;
            };
            if since.is_none() {
                since = row.get(0);
            } else if let Some(seconds) = row.get::<Option<f64>, _>(1) {
                longest = longest.max(Duration::from_secs_f64(seconds.max(0.0)));
            }
        });
    }
}
