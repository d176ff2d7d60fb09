//! Payment events (`--preset payments`): `outbox` with `published_at`, a Kafka topic per type, one for dead letters.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

mod breaking;
mod by_hand;
mod failing;
mod lag;
mod publishing;
mod variables;
pub(crate) mod world;
