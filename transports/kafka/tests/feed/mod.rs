//! The suite every feed passes, on topics of the shared broker, and what only a group of Kafka does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod broker;
mod group;
mod place;

mod on_postgres {
    use postroom_conformance::feeds::PostgresGround;

    postroom_conformance::feed_suite!(crate::feed::place::Shared, PostgresGround: once, failing, stopping, outages, aborting);
}

mod restarted {
    use postroom_conformance::feeds::PostgresGround;

    postroom_conformance::feed_suite!(crate::feed::place::Own, PostgresGround: cut);
}
