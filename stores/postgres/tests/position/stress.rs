//! The store under load while its relays die. The long form is `cargo xtask stress --minutes N`.

use std::time::{Duration, Instant};

use crate::position::load::Load;
use crate::position::relays;
use crate::position::shop::Shop;

/// Minutes of the long form.
const MINUTES: &str = "POSTROOM_STRESS_MINUTES";

/// One run in a schema of its own; the partitions are so short that each has its turn several times.
async fn run(lanes: u16, length: Duration) {
    let shop = Shop::with(|options| options.lanes(lanes).partitions(5).segment(Duration::from_secs(1))).await;
    let start = Instant::now();
    let load = Load::begin(&shop, length).await;
    let relayed = relays::deliver(&shop, &load, lanes.into()).await;
    let written = load.end().await;
    let report = shop.check(&relayed.seen).await;
    let relays::Relayed { takes, take_overs, in_hand, .. } = relayed;
    println!(
        "lanes {lanes} {report} of at most {in_hand}, {written}, take-overs {take_overs}, takes {takes}, {:.0} s",
        start.elapsed().as_secs_f64()
    );
    assert_eq!((report.lost, report.ghosts, report.swapped), (0, 0, 0), "schema {}: {report}", shop.schema());
    assert!(report.twice <= in_hand, "schema {}: {report}", shop.schema());
    assert!(report.committed > 0 && take_overs > 0, "nothing happened, so nothing was shown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_that_share_their_reads_each_get_everything_once_and_in_order() {
    let shop = Shop::with(|options| options.lanes(4).partitions(5).segment(Duration::from_secs(1))).await;
    let load = Load::begin(&shop, Duration::from_secs(6)).await;
    let (one, two, three) = tokio::join!(
        relays::serve(&shop, &load, "one"),
        relays::serve(&shop, &load, "two"),
        relays::serve(&shop, &load, "three")
    );
    let written = load.end().await;
    for seen in [one, two, three] {
        let report = shop.check(&seen).await;
        println!("{report}, {written}");
        let found = (report.lost, report.ghosts, report.swapped, report.twice);
        assert_eq!(found, (0, 0, 0, 0), "schema {}: {report}", shop.schema());
        assert!(report.committed > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_swapped_under_load_while_relays_die() {
    let minutes = std::env::var(MINUTES).ok().map(|text| text.parse::<u64>().expect("minutes are a number"));
    let Some(minutes) = minutes else {
        run(4, Duration::from_secs(10)).await;
        run(16, Duration::from_secs(10)).await;
        return;
    };
    for minute in 0..minutes {
        run(if minute % 2 == 0 { 4 } else { 16 }, Duration::from_mins(1)).await;
    }
}
