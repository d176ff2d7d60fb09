//! One PostgreSQL, routes to Kafka, RabbitMQ, NATS, Redis and a webhook at once, under load, while every one of them is
//! stopped or crashed and relays are killed: nothing is lost, nothing invented, order holds on every route, nothing dies.
//!
//! What arrived is read by consumers in another language, with clients that are not ours. The long form is `cargo xtask
//! faults`.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

use std::time::{Duration, Instant};

use postroom_e2e::{Brokers, Producers, Relays, Terms, World, scale, within};
use postroom_testbed::{Database, Servers};

const IN_FLIGHT_MAX: usize = 256;
const ROUTES: [&str; 5] = Brokers::ROUTES;
const TERMS: Terms<'_> = Terms { routes: &ROUTES, in_flight_max: IN_FLIGHT_MAX };
const RELAYS: usize = 3;
/// How far producers may be ahead of what they were last told: little, so that they wait while a broker starts again and
/// every outage meets events.
const AHEAD_MAX: usize = 500;
/// How many events the other routes deliver while a destination is down.
const MEANWHILE: u64 = 300;
/// How long the relays may take to get anywhere: a crashed one's lanes are free after its lease.
const PATIENCE: Duration = Duration::from_mins(10);

/// How many each route has delivered, in the order of [`ROUTES`].
fn delivered(world: &World) -> [u64; 5] {
    let status = world.status();
    let routes = status["routes"].as_array().unwrap();
    ROUTES.map(|name| routes.iter().find(|r| r["route"] == name).map_or(0, |r| r["delivered"].as_u64().unwrap()))
}

/// Waits until the routes have delivered as wanted; producers hear meanwhile how far the fastest is.
fn until_delivered(what: &str, world: &World, producers: &Producers, mut so: impl FnMut([u64; 5]) -> bool) {
    within(PATIENCE, what, || {
        let now = delivered(world);
        producers.delivered(usize::try_from(now.into_iter().max().unwrap_or(0)).unwrap());
        so(now).then_some(())
    });
}

#[test]
fn five_destinations_that_go_down_and_relays_that_die_lose_swap_and_kill_nothing() {
    let (events, kills, stops) = (4_000 * scale(), 4 * scale(), 2.min(scale()));
    let since = Instant::now();
    let world = World::new(env!("CARGO_BIN_EXE_e2e-child"));
    let mut brokers = Brokers::start(&world);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(Database::create(&Servers::find()));
    world.configure(&format!(
        "[store.main]\nurl = \"{}\"\n[relay]\nlease = \"3s\"\nin_flight_max = {IN_FLIGHT_MAX}\n[retry]\nbase = \"100ms\"\n{}",
        database.url(),
        brokers.routes()
    ));
    world.ok(&["store", "migrate", "up"]);
    println!("{:6.1} s: all are up", since.elapsed().as_secs_f64());
    let producers = Producers::start(&database.url(), events, AHEAD_MAX);
    let mut relays = Relays::start(&world, RELAYS);

    let (mut outages, mut killed) = (0, 0);
    for round in 0..stops {
        for (place, route) in ROUTES.into_iter().enumerate() {
            let goal = (events * (outages + 1) / (stops * ROUTES.len() + 1)) as u64;
            until_delivered("the next moment", &world, &producers, |now| now.into_iter().max() >= Some(goal));
            brokers.stop(route, round % 2 == 1);
            outages += 1;
            let before = delivered(&world);
            until_delivered("the others go on", &world, &producers, |now| {
                let others = (0..ROUTES.len()).filter(|other| *other != place);
                others.into_iter().all(|other| now[other] >= before[other] + MEANWHILE || now[other] >= events as u64)
            });
            while killed < kills * outages / (stops * ROUTES.len()) {
                relays.kill(killed % RELAYS);
                killed += 1;
            }
            brokers.resume(route);
            println!("{:6.1} s: {route} was away, {:?}", since.elapsed().as_secs_f64(), delivered(&world));
        }
    }
    until_delivered("everything is delivered", &world, &producers, |now| {
        producers.have_finished() && now.into_iter().all(|n| n >= producers.committed() as u64)
    });
    let ledger = producers.stop();
    let mut suffered = relays.stop();
    // A destination that goes down has up to a window of every relay on its way, and consumers cannot tell relays apart.
    let faults = suffered.values().sum::<usize>() + outages * RELAYS;
    suffered.clear();
    suffered.insert(0, faults);
    brokers.read(&world);
    let findings = TERMS.compare(&world, &ledger, &suffered);
    println!(
        "{} events on {} routes, {RELAYS} relays, {killed} kills, {outages} outages, {findings}, {:.0} s",
        ledger.committed.len(),
        ROUTES.len(),
        since.elapsed().as_secs_f64()
    );
    assert_eq!(killed, kills);
}
