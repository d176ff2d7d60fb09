//! Who may ask over HTTP.

use jiff::Timestamp;
use postroom_core::{Actor, NewToken, StoreError, TokenRow};

use crate::state::State;

impl State {
    pub(super) fn add_token(&mut self, new: &NewToken, actor: &Actor, now: Timestamp) -> Result<TokenRow, StoreError> {
        if self.tokens.contains_key(&new.name) {
            return Err(new.taken());
        }
        let NewToken { name, role, expires_at, hash } = new.clone();
        let (store, created_by) = (self.name.clone(), actor.name.clone());
        let row = TokenRow { store, name, role, created_at: now, created_by, expires_at, hash };
        self.tokens.insert(row.name.clone(), row.clone());
        self.note(now, actor, "token.create", &row.name, 1);
        Ok(row)
    }

    pub(super) fn revoke_token(&mut self, name: &str, actor: &Actor, now: Timestamp) -> Result<(), StoreError> {
        self.tokens.remove(name).ok_or_else(|| TokenRow::missing(name))?;
        self.note(now, actor, "token.revoke", name, 1);
        Ok(())
    }
}
