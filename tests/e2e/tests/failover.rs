//! A streaming standby that is promoted under load: producers write all the time, two relays deliver, the primary is killed.
//!
//! With a synchronous standby nothing that a producer was told is lost. With an asynchronous one exactly that is lost which
//! the standby had not received; everything else arrives, in order.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::collections::HashSet;
use std::time::Instant;

use postroom_e2e::{Follower, Producers, Relays, Terms, World, until};
use postroom_testbed::proxy::Mode;
use postroom_testbed::{Cluster, FaultProxy};
use tokio::runtime::Runtime;

const IN_FLIGHT_MAX: usize = 64;
const ROUTES: [&str; 2] = ["billing", "search"];
const TERMS: Terms<'_> = Terms { routes: &ROUTES, in_flight_max: IN_FLIGHT_MAX };
const RELAYS: usize = 2;
/// How far producers may be ahead of the relays: little, so that a failover meets both at work.
const AHEAD_MAX: usize = 500;
/// How many receptions there are before, while and after something is done.
const STAGE: usize = 1_000;

/// A primary, and a standby that follows it by way of a proxy.
struct Pair {
    primary: Cluster,
    link: FaultProxy,
    standby: Cluster,
    runtime: Runtime,
}

impl Pair {
    fn start(synchronous: bool) -> Self {
        let runtime = Runtime::new().unwrap();
        let (primary, link, standby) = runtime.block_on(async {
            let confirmed_by = if synchronous { "*" } else { "" };
            // Processes are killed here, not the machine: what they wrote is there without waiting for a disk.
            let settings = [("fsync", "off"), ("wal_sender_timeout", "0"), ("synchronous_standby_names", confirmed_by)];
            let primary = Cluster::start(&settings).await;
            let link = FaultProxy::to(primary.port()).await;
            let through = format!("host=127.0.0.1 port={} user=postgres", link.port());
            // Promoted it has no standby that could confirm anything.
            let alone = [("primary_conninfo", through.as_str()), ("synchronous_standby_names", "")];
            let standby = Cluster::standby_of(&primary, &alone).await;
            (primary, link, standby)
        });
        Self { primary, link, standby, runtime }
    }

    fn urls(&self) -> [String; 2] {
        [self.primary.url("postgres"), self.standby.url("postgres")]
    }

    /// From now on the standby hears nothing of the primary.
    fn cut_off(&self) {
        self.runtime.block_on(self.link.set(Mode::Hold));
    }

    fn fail_over(&self) {
        self.runtime.block_on(async {
            self.primary.kill_postmaster().await;
            self.standby.promote().await;
        });
    }
}

fn world(pair: &Pair) -> World {
    let [primary, standby] = pair.urls();
    let world = World::with(
        env!("CARGO_BIN_EXE_e2e-child"),
        &format!(
            "[store.main]\nurl = [\"{primary}\", \"{standby}\"]\n\
             [relay]\nlease = \"2s\"\nin_flight_max = {IN_FLIGHT_MAX}\n\
             [retry]\nbase = \"50ms\"\nmax = \"200ms\"\n\
             [[route]]\nname = \"billing\"\nto = {{ exec = {{ command = {{child}} }} }}\n\
             [[route]]\nname = \"search\"\nto = {{ exec = {{ command = {{child}} }} }}\n"
        ),
    );
    world.mode("rarely flaky");
    world
}

fn produce(pair: &Pair) -> Producers {
    let urls = pair.urls();
    Producers::on_any(&[&urls[0], &urls[1]], AHEAD_MAX)
}

/// Waits until so much more was received; producers hear meanwhile how far the relays are.
fn until_received(more: usize, journal: &mut Follower, producers: &Producers) {
    let goal = journal.count() + more;
    until("deliveries go on", || {
        let received = journal.count();
        producers.delivered(received / ROUTES.len());
        received >= goal
    });
}

/// That the promoted server is another one than before is not kept from who looks, and it is no problem; what the doctor says.
fn server_has_changed(world: &World) -> String {
    let status = world.ok(&["status"]);
    assert!(status.contains("a standby was promoted"), "{status}");
    let doctor = world.run(&["doctor"]);
    assert_eq!(doctor.code, 0, "{}", doctor.stdout);
    let found = doctor.stdout.lines().find(|line| line.contains("doctor.server_changed")).unwrap_or_default();
    assert!(found.contains("a standby was promoted"), "{}", doctor.stdout);
    found.trim().to_owned()
}

#[test]
fn a_synchronous_standby_promoted_under_load_loses_nothing_that_a_producer_was_told() {
    let since = Instant::now();
    let pair = Pair::start(true);
    let world = world(&pair);
    let producers = produce(&pair);
    let mut relays = Relays::start(&world, RELAYS);
    let mut journal = world.journal().follow();
    until_received(STAGE, &mut journal, &producers);
    relays.all_suffered();
    pair.fail_over();
    until_received(STAGE, &mut journal, &producers);
    let ledger = producers.stop();
    println!("{}", server_has_changed(&world));
    let suffered = relays.stop();
    let findings = TERMS.compare(&world, &ledger, &suffered);
    println!(
        "{} events on {} routes, {} committed and gone, {findings}, {:.0} s",
        ledger.committed.len(),
        ROUTES.len(),
        ledger.gone.len(),
        since.elapsed().as_secs_f64()
    );
    assert_eq!(ledger.gone, [], "a commit that was confirmed is on the standby");
}

#[test]
fn an_asynchronous_standby_promoted_under_load_loses_what_it_never_received_and_nothing_else() {
    let since = Instant::now();
    let pair = Pair::start(false);
    let world = world(&pair);
    let producers = produce(&pair);
    let mut relays = Relays::start(&world, RELAYS);
    let mut journal = world.journal().follow();
    until_received(STAGE, &mut journal, &producers);
    let before = journal.count();
    pair.cut_off();
    until_received(STAGE, &mut journal, &producers);
    relays.all_suffered();
    pair.fail_over();
    let unknown_to_standby = journal.count() - before;
    until_received(STAGE, &mut journal, &producers);
    let ledger = producers.stop();
    println!("{}", server_has_changed(&world));
    let suffered = relays.stop();
    Terms::settle(&world);

    // What was sent while the primary had it and the promoted server has not: nothing else may be unknown there.
    let there: HashSet<&str> = ledger.committed.iter().map(|written| written.id.as_str()).collect();
    let lost: HashSet<&str> = ledger.gone.iter().map(|written| written.id.as_str()).collect();
    let (survived, sent_and_gone): (Vec<_>, Vec<_>) =
        world.journal().read().into_iter().partition(|reception| there.contains(reception.id.as_str()));
    let invented: Vec<_> =
        sent_and_gone.iter().filter(|r| !lost.contains(r.id.as_str()) && !ledger.unanswered.contains(&r.id)).collect();
    assert!(invented.is_empty(), "never committed anywhere: {invented:?}");
    let sent: HashSet<&str> = sent_and_gone.iter().map(|reception| reception.id.as_str()).collect();

    // That something was delivered is unknown to the promoted server too, so that it comes again.
    let terms = Terms { in_flight_max: IN_FLIGHT_MAX + unknown_to_standby, ..TERMS };
    let findings = terms.check(&ledger, &survived, &suffered);
    println!(
        "{} events on {} routes, {} committed and gone, {} of what is gone was sent, {findings}, {:.0} s",
        ledger.committed.len(),
        ROUTES.len(),
        lost.len(),
        sent.len(),
        since.elapsed().as_secs_f64()
    );
    assert!(!lost.is_empty(), "the standby was cut off, so commits are gone");
    assert!(!sent.is_empty(), "the relays delivered while the standby was cut off");
}
