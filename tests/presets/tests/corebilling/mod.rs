//! Billing (`--preset corebilling`): `billing_events` with its state inside the payload, to Kafka, NATS or nowhere.

#![allow(clippy::unwrap_used, reason = "what is not as documented fails the test")]

mod buses;
mod failing;
mod operating;
mod publishing;
mod webhooks;
mod world;
