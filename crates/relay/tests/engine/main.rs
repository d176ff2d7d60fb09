//! What the engine promises, on the memory store with paused time.

mod breaker;
mod order;
mod shop;
mod stopping;
mod windows;
