//! Operators: pause and resume, prune, look; and what they see agrees with the ledger (P8).

use std::time::Duration;

use postroom_core::{Actor, Retention};

use crate::destination::lock;
use crate::schedule::{ROUTE, Run};

impl Run {
    pub(crate) async fn pause_or_resume(&mut self) {
        self.make_way().await;
        self.paused = !self.paused;
        let paused = self.paused;
        self.say(if paused { "pause" } else { "resume" });
        let admin = self.admin();
        let done = self.through(async move {
            if paused { admin.pause(ROUTE, &operator()).await } else { admin.resume(ROUTE, &operator()).await }
        });
        let done = done.await;
        done.expect("the route is registered");
    }

    pub(crate) async fn prune(&mut self) {
        self.make_way().await;
        let keep = Some(Duration::from_millis(200));
        let (admin, short) = (self.admin(), Retention { delivered: keep, attempts: keep, inbox: keep });
        let pruned = self.through(async move { admin.prune(&short, false).await }).await;
        self.say(format!("prune {pruned:?}"));
    }

    /// What operators see agrees with the ledger, while everything goes on.
    pub(crate) async fn look(&mut self) {
        self.say("look");
        let admin = self.admin();
        let Ok(rows) = self.through(async move { admin.verify().await }).await else { return };
        let differences = rows.into_iter().flat_map(|row| row.differences).map(|one| format!("P8: verify: {one}"));
        let differences: Vec<String> = differences.collect();
        // What nobody has handed over, and nothing stands in front of, is due.
        let due = lock(&self.ledger).due() as u64;
        let admin = self.admin();
        let Ok(routes) = self.through(async move { admin.routes().await }).await else { return };
        let mut ledger = lock(&self.ledger);
        ledger.violations.extend(differences);
        for status in routes.iter().map(|route| &route.status).filter(|status| status.route == ROUTE) {
            let (refused, acknowledged) = (ledger.refused(), ledger.arrivals());
            if status.due.unwrap_or(0) < due {
                ledger.violations.push(format!("P8: status says {:?} due, at least {due} are", status.due));
            }
            if status.delivered > acknowledged || status.dead > refused {
                let what = format!(
                    "P8: status says {} delivered and {} dead, it was {acknowledged} and {refused}",
                    status.delivered, status.dead
                );
                ledger.violations.push(what);
            }
        }
    }
}

fn operator() -> Actor {
    Actor { name: "operator".to_owned(), reason: None }
}
