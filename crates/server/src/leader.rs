//! Among the relays of a store, or of a route, the one that joined first does what only one should do.

use postroom_admin::Admin;
use postroom_admin::view::RelayRow;
use postroom_core::StoreError;

/// Whether we joined the relays of the store first; nothing before we have joined.
pub(crate) async fn is_leader(admin: &dyn Admin, boot: &str) -> Result<Option<bool>, StoreError> {
    Ok(is_first(&admin.relays().await?, boot))
}

/// Whether we joined first among the relays of the store that serve this route; nothing before we have joined.
pub(crate) async fn leads_route(admin: &dyn Admin, boot: &str, route: &str) -> Result<Option<bool>, StoreError> {
    let mut relays = admin.relays().await?;
    relays.retain(|relay| relay.routes.iter().any(|served| served == route));
    Ok(is_first(&relays, boot))
}

fn is_first(relays: &[RelayRow], boot: &str) -> Option<bool> {
    let alive = relays.iter().filter(|relay| relay.alive);
    let first = alive.min_by_key(|relay| (relay.started_at, relay.boot.as_str())).map(|relay| relay.boot == boot);
    first.filter(|_| relays.iter().any(|relay| relay.boot == boot))
}

#[cfg(test)]
mod tests {
    use postroom_core::Timestamp;

    use super::*;

    #[test]
    fn the_first_that_joined_and_lives_leads_and_before_we_have_joined_nobody_knows() {
        let relay = |boot: &str, second: i64, alive: bool| RelayRow {
            store: "main".to_owned(),
            relay: boot.to_owned(),
            boot: boot.to_owned(),
            version: String::new(),
            alive,
            started_at: Timestamp::new(second, 0).unwrap(),
            seen_at: Timestamp::UNIX_EPOCH,
            lanes: 0,
            routes: Vec::new(),
        };
        let relays = [relay("late", 3, true), relay("gone", 1, false), relay("early", 2, true)];
        for (boot, leads) in [("early", Some(true)), ("late", Some(false)), ("new", None)] {
            assert_eq!(is_first(&relays, boot), leads, "{boot}");
        }
        assert_eq!(is_first(&[], "new"), None);
    }
}
