//! What events must look like: JSON Schemas by event type, checked when an event is appended and again before it is sent.
//!
//! A schema is compiled once, in a way that cannot be made slow by what it is applied to: patterns run in linear time,
//! formats are checked, nothing is fetched. What is said about an event that breaks its contract are paths and keywords,
//! never what stands there.
//!
//! ```
//! use postroom_contracts::{AppliesTo, Contracts, Mode};
//! use postroom_core::{Contract, Event};
//!
//! let mut contracts = Contracts::new(AppliesTo::Payload, Mode::Enforce);
//! contracts.add("order.placed", None, r#"{"required": ["total"], "properties": {"total": {"minimum": 1}}}"#, "inline")?;
//! let placed = Event::new("order.placed").json(&serde_json::json!({ "total": 0 }))?;
//! let breach = contracts.check(&placed).unwrap_err();
//! assert_eq!(breach.to_string(), "event of type \"order.placed\" breaks its contract: /total: minimum");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod codes;
mod compare;
mod contracts;
mod folder;
mod schema;
mod transport;

pub use codes::CODES;
pub use compare::{Difference, compare};
pub use contracts::{AppliesTo, Contracts, Enveloped, Mode, Row};
pub use folder::{SchemaFile, file_name, read_folder, read_name};
pub use schema::{Draft, Schema, SchemaError};
pub use transport::Contracted;

/// The target of everything this crate logs.
const LOG: &str = "postroom::contracts";
