//! Producers that use other clients and other languages.

mod clients;
mod languages;
