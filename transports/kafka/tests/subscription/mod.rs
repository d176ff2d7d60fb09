//! The suite every subscription passes, on topics of the shared broker, and what only a group of Kafka does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod broker;
mod group;
mod place;

mod on_postgres {
    use postroom_conformance::subscriptions::PostgresEffects;

    postroom_conformance::subscription_suite!(crate::subscription::place::Shared, PostgresEffects: once, failing, stopping, outages, aborting);
}

mod restarted {
    use postroom_conformance::subscriptions::PostgresEffects;

    postroom_conformance::subscription_suite!(crate::subscription::place::Own, PostgresEffects: cut);
}
