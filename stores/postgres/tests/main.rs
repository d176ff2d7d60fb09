//! The native log and adopted tables on a real PostgreSQL.

mod adopted;
mod application;
mod begin;
mod engine;
mod hazards;
mod maintenance;
mod plans;
mod pool;
mod position;
mod suite;
