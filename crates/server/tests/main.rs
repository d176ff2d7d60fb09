//! From a file to running relays, and what they answer over HTTP. A build without the server's features has only words for
//! what it lacks.

#[cfg(all(feature = "adopted", feature = "contracts", feature = "exec", feature = "http"))]
mod api;
mod bad;
#[cfg(all(feature = "adopted", feature = "contracts", feature = "exec", feature = "http"))]
mod docs;
#[cfg(all(feature = "adopted", feature = "contracts", feature = "exec", feature = "http"))]
mod layers;
#[cfg(all(feature = "adopted", feature = "contracts", feature = "exec", feature = "http"))]
mod run;
#[cfg(all(feature = "adopted", feature = "contracts", feature = "exec", feature = "http"))]
mod schema;
mod words;
