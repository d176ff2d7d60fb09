//! Asks everything there is to ask; what does not answer in time is a part that says why.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postroom_admin::{Admin, Selection};
use postroom_core::StoreError;
use postroom_server::config::{Config, StoreConfig};
use postroom_server::stores::{self, IfMissing};
use postroom_server::{doctor, status};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::metrics;
use super::pseudonyms::Pseudonyms;

/// How long one question may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long counting may take, and the doctor with everything that is configured.
const COUNTED_WITHIN: Duration = Duration::from_mins(1);
/// Most rows of a list.
const ROWS_MAX: usize = 50;

/// One file of the bundle, without the end of its name.
pub(super) struct Part {
    /// The store it is about.
    store: Option<String>,
    name: &'static str,
    content: Result<Content, Unanswered>,
}

enum Content {
    Json(Value),
    Text(String),
}

/// Why something could not be asked.
pub(super) struct Unanswered {
    /// In words of ours.
    pub(super) kind: String,
    /// In words that may name anything.
    pub(super) text: String,
}

impl Part {
    fn json<T: Serialize>(name: &'static str, answer: Result<T, Unanswered>) -> Self {
        let content = answer.and_then(|answer| {
            let json = serde_json::to_value(answer);
            json.map(Content::Json).map_err(|error| Unanswered { kind: "other".to_owned(), text: error.to_string() })
        });
        Self { store: None, name, content }
    }

    fn of(self, store: &StoreConfig) -> Self {
        Self { store: Some(store.name.clone()), ..self }
    }

    /// Its name in the bundle.
    pub(super) fn file(&self) -> String {
        let ending = match self.content {
            Ok(Content::Json(_)) => "json",
            Ok(Content::Text(_)) => "txt",
            Err(_) => "missing.txt",
        };
        let folder = self.store.as_ref().map(|store| format!("stores/{store}/")).unwrap_or_default();
        format!("{folder}{}.{ending}", self.name)
    }

    pub(super) fn missing(&self) -> bool {
        self.content.is_err()
    }

    pub(super) fn text(&self) -> String {
        match &self.content {
            Ok(Content::Json(value)) => format!("{value:#}\n"),
            Ok(Content::Text(text)) => text.clone(),
            Err(why) => format!("{}: {}\n", why.kind, why.text),
        }
    }

    /// The same without anything of the business in it.
    pub(super) fn redacted(mut self, words: &mut Pseudonyms) -> Self {
        self.store = self.store.map(|store| words.word("store", &store));
        match &mut self.content {
            Ok(Content::Json(settings)) if self.name == "config" => words.settings(settings),
            Ok(Content::Json(value)) => words.json(value, ""),
            Ok(Content::Text(text)) => *text = words.metrics(text),
            Err(why) => why.text = words.word("error", &why.text),
        }
        self
    }
}

/// Everything, in the order in which somebody reads it.
pub(super) async fn everything(config: &Config) -> Vec<Part> {
    let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
    let version = json!({ "version": env!("CARGO_PKG_VERSION"), "os": system, "arch": processor });
    let open = |store: StoreConfig| async move { admin(config, &store).await };
    let report = Box::pin(status::collect(config, status::Part::All, |_| true, open));
    let mut parts = vec![
        Part::json("version", Ok(version)),
        Part::json("config", Ok(settings(config))),
        Part::json("doctor", within(COUNTED_WITHIN, async { Ok(doctor::diagnose(config).await) }).await),
        Part::json("status", within(COUNTED_WITHIN, async { Ok(report.await) }).await),
    ];
    for store in &config.stores {
        let about = Box::pin(about_store(config, store)).await;
        parts.extend(about.into_iter().map(|part| part.of(store)));
    }
    if let Some(listen) = &config.http.listen {
        let asked = metrics::ask(listen.address, config.http.metrics_token.as_ref());
        let content = match timeout(ANSWER_WITHIN, asked).await {
            Ok(answer) => answer.map(Content::Text),
            Err(_) => Err(silent(ANSWER_WITHIN)),
        };
        parts.push(Part { store: None, name: "metrics", content });
    }
    parts
}

/// What is in force, as `config show` has it; of commands only the program: the rest may be a secret that nobody declared as
/// one.
fn settings(config: &Config) -> Vec<Value> {
    let shown = config.show().iter().map(|setting| {
        let command = setting.key.ends_with(".exec.command");
        let value = if command { only_program(&setting.value) } else { setting.value.clone() };
        json!({ "key": setting.key, "value": value, "origin": setting.origin.to_string() })
    });
    shown.collect()
}

fn only_program(value: &str) -> String {
    match value.split_once("\", ") {
        Some((program, _)) => format!("{program}\", \"***\"]"),
        None => value.to_owned(),
    }
}

/// All at once: a store that is away is waited for once.
async fn about_store(config: &Config, store: &StoreConfig) -> Vec<Part> {
    let counted = async {
        // Counting takes longer than open may; making tables is not what it was asked for.
        let store = StoreConfig { migrate: false, ..store.clone() };
        stores::open(&store, config.limits).await?.admin().verify().await
    };
    let schema = async { stores::open_schema(store, config.limits, IfMissing::Fail).await?.status().await };
    let stats = async {
        match store.url.scheme() {
            "sqlite" => Ok(None),
            _ => stores::open_maintenance(store).await?.stats().await.map(Some),
        }
    };
    let anything = Selection::default();
    let (verify, audit, dead, blocked, schema, stats) = tokio::join!(
        within(COUNTED_WITHIN, counted),
        within(ANSWER_WITHIN, async { admin(config, store).await?.audit(None, ROWS_MAX).await }),
        within(ANSWER_WITHIN, async { admin(config, store).await?.dead(&anything, 0, ROWS_MAX).await }),
        within(ANSWER_WITHIN, async { admin(config, store).await?.blocked_keys(None, None, ROWS_MAX).await }),
        within(ANSWER_WITHIN, schema),
        within(ANSWER_WITHIN, stats),
    );
    let mut parts = vec![
        Part::json("verify", verify),
        Part::json("audit", audit),
        Part::json("dead", dead),
        Part::json("blocked", blocked),
        Part::json("migrations", schema),
    ];
    // Only a store on a server has them.
    if !matches!(stats, Ok(None)) {
        parts.push(Part::json("stats", stats));
    }
    parts
}

async fn admin(config: &Config, store: &StoreConfig) -> Result<Arc<dyn Admin>, StoreError> {
    Ok(stores::open_for_admin(store, config.limits).await?.admin())
}

async fn within<T>(limit: Duration, asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, Unanswered> {
    match timeout(limit, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Unanswered { kind: format!("{:?}", error.kind).to_lowercase(), text: error.message }),
        Err(_) => Err(silent(limit)),
    }
}

fn silent(limit: Duration) -> Unanswered {
    Unanswered { kind: format!("no answer within {} s", limit.as_secs()), text: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_command_only_the_program_is_told() {
        assert_eq!(only_program(r#"["mailer", "--password", "x"]"#), r#"["mailer", "***"]"#);
        assert_eq!(only_program(r#"["mailer"]"#), r#"["mailer"]"#);
    }
}
