//! Who may ask a relay over HTTP, and what: a token is a name, a role and an end.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::error::{StoreError, StoreErrorKind};

/// What somebody may do; each may also do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Looks at everything but payloads.
    Viewer,
    /// Sees payloads, pauses and resumes, replays, discards, takes events of pull routes.
    Operator,
    /// Forgets routes and acceptances, makes and revokes tokens.
    Admin,
}

impl Role {
    /// Every one, least first.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// The role of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// What is kept of a token: never the token itself.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenRow {
    /// The store it opens.
    pub store: String,
    /// Its name; the audit calls whoever has it so.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// When it was made.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// When it ends; `None` is never.
    pub expires_at: Option<Timestamp>,
    /// SHA-256 of the token, in hexadecimal.
    #[serde(skip)]
    pub hash: String,
}

impl fmt::Debug for TokenRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRow").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// A token to be made.
#[derive(Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Its name; no other token of the store may have it.
    pub name: String,
    /// What it allows.
    pub role: Role,
    /// When it ends; `None` is never.
    pub expires_at: Option<Timestamp>,
    /// SHA-256 of the token, in hexadecimal.
    pub hash: String,
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

impl NewToken {
    /// The error of a name that another token has.
    pub fn taken(&self) -> StoreError {
        let message = format!("there is a token {:?} already", self.name);
        StoreError::new(StoreErrorKind::Conflict, "token", message)
            .hint("choose another name, or revoke that one first: `postroom token revoke`")
    }
}

impl TokenRow {
    /// The error of a name that no token has.
    pub fn missing(name: &str) -> StoreError {
        let message = format!("there is no token {name:?}");
        StoreError::new(StoreErrorKind::NotFound, "token", message).hint("list them: `postroom token ls`")
    }

    /// Whether it has ended by then.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}
