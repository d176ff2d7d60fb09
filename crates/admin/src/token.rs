//! Who may ask a relay over HTTP, and what: a token is a name, a role, a scope and an end.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use postroom_core::{StoreError, StoreErrorKind};

/// How exact the last use of a token is, in seconds: each use is a write.
const USE_NOTED_EVERY: i64 = 60;

/// Role of a token. Operators may do what viewers and workers may, admins everything; a worker reads nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Role {
    /// Leases and settles events of the pull routes in its scope, and nothing else.
    Worker,
    /// Reads everything but payloads.
    Viewer,
    /// Reads payloads, pauses and resumes, replays, discards, leases events of pull routes.
    Operator,
    /// Forgets routes and acceptances, creates and revokes tokens.
    Admin,
}

impl Role {
    /// All roles, least first.
    pub const ALL: [Self; 4] = [Self::Worker, Self::Viewer, Self::Operator, Self::Admin];

    /// Returns the name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Reports whether this role may do what requires that one.
    pub fn includes(self, required: Self) -> bool {
        match required {
            Self::Worker => self != Self::Viewer,
            required => self >= required,
        }
    }

    /// Parses the name of a role.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

/// Scope of a token: requests beyond it are refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scope {
    /// Routes that the token is limited to; empty is all.
    pub routes: Vec<String>,
    /// Tenant that the token is limited to; `None` is all.
    pub tenant: Option<String>,
}

impl Scope {
    /// Reports whether the scope limits nothing.
    pub fn is_everything(&self) -> bool {
        self.routes.is_empty() && self.tenant.is_none()
    }
}

/// Token as it is stored, without its secret.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenRow {
    /// Name of the store that the token is valid for.
    pub store: String,
    /// Name of the token, under which the audit log records its actions.
    pub name: String,
    /// Role of the token.
    pub role: Role,
    /// Time at which the token was created.
    pub created_at: Timestamp,
    /// Operator who created the token.
    pub created_by: String,
    /// Time at which the token expires; `None` is never.
    pub expires_at: Option<Timestamp>,
    /// Scope of the token.
    #[serde(flatten)]
    pub scope: Scope,
    /// Time at which the token was last used, to the minute; `None` is never.
    pub last_used_at: Option<Timestamp>,
    /// Time at which the token was revoked; `None` if it was not.
    pub revoked_at: Option<Timestamp>,
    /// Time until which the secret from before the last rotation is valid.
    pub previous_until: Option<Timestamp>,
    /// SHA-256 of the secret, in hexadecimal.
    #[serde(skip)]
    pub hash: String,
    /// SHA-256 of the secret from before the last rotation.
    #[serde(skip)]
    pub previous_hash: Option<String>,
}

impl fmt::Debug for TokenRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRow").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// Token to be created.
#[derive(Clone, PartialEq, Eq)]
pub struct NewToken {
    /// Name of the token; unique in the store.
    pub name: String,
    /// Role of the token.
    pub role: Role,
    /// Time at which the token expires; `None` is never.
    pub expires_at: Option<Timestamp>,
    /// Scope of the token.
    pub scope: Scope,
    /// SHA-256 of the secret, in hexadecimal.
    pub hash: String,
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

impl NewToken {
    /// Builds the error of a name that another token has.
    pub fn taken(&self) -> StoreError {
        let message = format!("there is a token {:?} already", self.name);
        StoreError::new(StoreErrorKind::Conflict, "token", message)
            .hint("choose another name, or revoke that one first: `postroom token revoke`")
    }
}

impl TokenRow {
    /// Builds the error of a name that no token has.
    pub fn missing(name: &str) -> StoreError {
        let message = format!("there is no token {name:?}");
        StoreError::new(StoreErrorKind::NotFound, "token", message).hint("list them: `postroom token ls`")
    }

    /// Reports whether the token has expired or was revoked at this time.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.revoked_at.is_some() || self.expires_at.is_some_and(|end| end <= now)
    }

    /// Returns the hashes of the secrets that are valid at this time; after a rotation, two for a while.
    pub fn hashes(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let previous = self.previous_hash.as_deref().filter(|_| self.previous_until.is_some_and(|until| until > now));
        [Some(self.hash.as_str()).filter(|_| !self.has_ended(now)), previous.filter(|_| !self.has_ended(now))]
            .into_iter()
            .flatten()
    }

    /// Reports whether a use at this time has to be written down.
    pub fn use_is_news(&self, now: Timestamp) -> bool {
        self.last_used_at.is_none_or(|at| now.duration_since(at).as_secs() >= USE_NOTED_EVERY)
    }
}
