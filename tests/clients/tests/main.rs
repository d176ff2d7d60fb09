//! The client packages pass the tests of their own languages against a real database and a real relay, and can be packed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be read or run fails the test")]

mod go;
mod java;
mod page;
mod python;
mod typescript;
mod vectors;
