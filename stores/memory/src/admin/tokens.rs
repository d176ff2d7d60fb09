//! Who may ask over HTTP.

use std::time::Duration;

use jiff::Timestamp;
use postroom_admin::{NewToken, TokenRow};
use postroom_core::{Actor, StoreError};

use crate::state::State;

impl State {
    pub(super) fn add_token(&mut self, new: &NewToken, actor: &Actor, now: Timestamp) -> Result<TokenRow, StoreError> {
        if self.valid_token(&new.name).is_some() {
            return Err(new.taken());
        }
        let NewToken { name, role, expires_at, scope, hash, .. } = new.clone();
        let row = TokenRow {
            store: self.name.clone(),
            name,
            role,
            created_at: now,
            created_by: actor.name.clone(),
            expires_at,
            scope,
            last_used_at: None,
            revoked_at: None,
            previous_until: None,
            hash,
            previous_hash: None,
        };
        self.tokens.insert(row.name.clone(), row.clone());
        self.note(now, actor, "token.create", &row.name, 1);
        Ok(row)
    }

    pub(super) fn revoke_token(&mut self, name: &str, actor: &Actor, now: Timestamp) -> Result<(), StoreError> {
        let token = self.valid_token(name).ok_or_else(|| TokenRow::missing(name))?;
        (token.revoked_at, token.previous_hash, token.previous_until) = (Some(now), None, None);
        self.note(now, actor, "token.revoke", name, 1);
        Ok(())
    }

    pub(super) fn rotate_token(
        &mut self,
        name: &str,
        hash: &str,
        keep: Duration,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<TokenRow, StoreError> {
        let token = self.valid_token(name).ok_or_else(|| TokenRow::missing(name))?;
        token.previous_hash = Some(std::mem::replace(&mut token.hash, hash.to_owned()));
        token.previous_until = Some(now.saturating_add(keep).unwrap_or(Timestamp::MAX));
        let row = token.clone();
        self.note(now, actor, "token.rotate", name, 1);
        Ok(row)
    }

    pub(super) fn token_used(&mut self, name: &str, now: Timestamp) {
        if let Some(token) = self.tokens.get_mut(name) {
            token.last_used_at = token.last_used_at.max(Some(now));
        }
    }

    fn valid_token(&mut self, name: &str) -> Option<&mut TokenRow> {
        self.tokens.get_mut(name).filter(|token| token.revoked_at.is_none())
    }
}
