//! What the environment and the defaults say beside the keys themselves.

use std::collections::BTreeMap;

use postroom_settings::{Data, Node, Origin, Place, Problems, Table};

use super::definition::DEFINITION;
use crate::transports;

/// Lays variables over the tree: ours, and those that many platforms set.
pub(super) fn environment(tree: &mut Table, env: &BTreeMap<String, String>, problems: &mut Problems) {
    DEFINITION.environment(tree, env, problems);
    database_url(tree, env);
    #[cfg(feature = "otlp")]
    super::telemetry::environment(tree, env);
}

/// Puts the default of every key that nobody set under the tree.
pub(super) fn defaults(tree: &mut Table) {
    DEFINITION.defaults(tree);
    let place = Place::of(Origin::Default);
    let text = |text: String| Node { data: Data::Text(text), place: place.clone() };
    let mut stores = Vec::new();
    if let Some(Data::Table(table)) = tree.get_mut("store").map(|n| &mut n.data) {
        for entry in &mut table.0 {
            stores.push(entry.name.clone());
            let Data::Table(store) = &mut entry.node.data else { continue };
            if store.get("source").is_none() {
                store.set("source", text(format!("/postroom/{}", entry.name)));
            }
            let sqlite = store.text("url").is_some_and(|url| url.starts_with("sqlite"));
            for (key, value) in [("schema", "postroom"), ("pooler", "auto")] {
                if !sqlite && store.get(key).is_none() {
                    store.set(key, text(value.to_owned()));
                }
            }
        }
    }
    let Some(Data::List(routes)) = tree.get_mut("route").map(|n| &mut n.data) else { return };
    for route in routes {
        let Data::Table(route) = &mut route.data else { continue };
        if let ([only], None) = (stores.as_slice(), route.get("store")) {
            route.set("store", text(only.clone()));
        }
        if route.get("envelope").is_none() {
            let format = default_envelope(route.table("to"));
            route.set("envelope", text(format.to_owned()));
        }
    }
}

/// The body says everything where there are no headers, or where a signature covers the body alone.
fn default_envelope(to: Option<&Table>) -> &'static str {
    let to = to.and_then(|to| to.0.first());
    let kind = to.and_then(|entry| transports::kind(&entry.name));
    let given = |name: &&str| {
        let value = to.and_then(|entry| entry.node.table()?.get(name));
        value.is_some_and(|node| node.text() != Some(""))
    };
    if kind.is_some_and(|kind| !kind.headers || kind.signed_by.iter().any(given)) {
        "cloudevents-structured"
    } else {
        "cloudevents-binary"
    }
}

/// `DATABASE_URL` is the store `main` when no other is configured, or when that one does not say where it is: many platforms
/// set it, and so do the users of presets.
fn database_url(tree: &mut Table, env: &BTreeMap<String, String>) {
    let Some(url) = env.get("DATABASE_URL").filter(|url| !url.is_empty()) else { return };
    let stores = tree.table("store");
    let nowhere = |main: &Table| main.get("url").is_none() && main.get("url_file").is_none();
    if stores.is_none_or(|stores| stores.0.is_empty() || stores.table("main").is_some_and(nowhere)) {
        let place = Place::of(Origin::Environment { variable: "DATABASE_URL".to_owned() });
        if let Some(main) = tree.table_or_new("store", &place).and_then(|s| s.table_or_new("main", &place)) {
            main.set("url", Node { data: Data::Text(url.clone()), place: place.clone() });
        }
    }
}
