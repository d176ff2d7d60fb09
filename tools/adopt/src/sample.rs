//! What a sample of rows holds: the words of columns that may tell a state, the keys of JSON objects.

use std::collections::BTreeMap;

use postroom_adopted::mapping::Name;
use postroom_adopted::survey::{Fact, Facts, Member, Word};
use postroom_adopted::{Dialect, SqlExecutor, Statement};
use postroom_core::StoreError;
use serde_json::Value;

use crate::guess::names::{self, may_be_object, may_tell_state};

/// Rows whose words are counted, from either end of the table.
const WORD_ROWS: usize = 10_000;
/// Rows whose objects are read, from either end.
const OBJECT_ROWS: usize = 100;
/// Largest object that is read, in characters.
const OBJECT_CHARS_MAX: usize = 65_536;
/// More words than that are no state.
const WORDS_MAX: usize = 12;
/// A longer text is no word.
const WORD_CHARS_MAX: usize = 64;

/// Adds what the rows tell to what the catalogue said.
pub(crate) async fn add(executor: &dyn SqlExecutor, facts: &mut Facts) -> Result<(), StoreError> {
    let stamps: Vec<String> = facts
        .columns
        .iter()
        .filter(|column| column.nullable && names::is_done_at(&names::bare(column.name.as_str())))
        .map(|column| format!("{} is not null", column.name.quoted()))
        .collect();
    let stamped = if stamps.is_empty() { "false".to_owned() } else { stamps.join(" or ") };
    for n in 0..facts.columns.len() {
        let Some(column) = facts.columns.get(n) else { continue };
        if may_tell_state(column.name.as_str()) && column.is_word() {
            let words = words(executor, facts, column, &stamped).await?;
            if let Some(column) = facts.columns.get_mut(n) {
                column.words = words;
            }
        } else if column.is_json_type() || (column.is_json() && may_be_object(column.name.as_str())) {
            let members = members(executor, facts, column).await?;
            if let Some(column) = facts.columns.get_mut(n) {
                column.members = members;
            }
        }
    }
    Ok(())
}

/// Some rows from either end of the table, each once.
fn ends(facts: &Facts, select: &str, condition: &str, rows: usize) -> String {
    let table = facts.table.quoted();
    let front = |select: &str| format!("select * from (select {select} from {table}{condition} limit {rows}) f");
    match facts.keys.first().map(Vec::as_slice) {
        Some([key]) => {
            let key = key.quoted();
            let select = format!("{key} as k, {select}");
            let back = format!("select {select} from {table}{condition} order by {key} desc limit {rows}");
            format!("{} union select * from ({back}) b", front(&select))
        }
        _ => front(select),
    }
}

async fn words(
    executor: &dyn SqlExecutor,
    facts: &Facts,
    column: &Fact,
    stamped: &str,
) -> Result<Vec<Word>, StoreError> {
    let name = column.name.quoted();
    let rows = ends(facts, &format!("{name} as w, case when {stamped} then 1 end as d"), "", WORD_ROWS);
    let text = format!(
        "select cast(w as text), cast(count(*) as text), cast(count(d) as text) from ({rows}) s \
         where w is not null group by w order by count(*) desc limit {}",
        WORDS_MAX + 1
    );
    let found = executor.look("adopt", vec![Statement::new(text)]).await?.into_iter().next().unwrap_or_default();
    let mut words = Vec::new();
    for row in found {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || cells.next().unwrap_or_default();
        let (text, rows, stamped) = (next(), next(), next());
        words.push(Word { text, rows: rows.parse().unwrap_or_default(), stamped: stamped.parse().unwrap_or_default() });
    }
    let state = words.len() <= WORDS_MAX && words.iter().all(|word| word.text.chars().count() <= WORD_CHARS_MAX);
    Ok(if state { words } else { Vec::new() })
}

async fn members(executor: &dyn SqlExecutor, facts: &Facts, column: &Fact) -> Result<Vec<Member>, StoreError> {
    let cast = as_text(facts.dialect, &column.name);
    let condition = format!(" where length({cast}) <= {OBJECT_CHARS_MAX}");
    let text = format!("select o from ({}) s", ends(facts, &format!("{cast} as o"), &condition, OBJECT_ROWS));
    let found = executor.look("adopt", vec![Statement::new(text)]).await?.into_iter().next().unwrap_or_default();
    let texts = found.into_iter().filter_map(|row| row.into_iter().next().flatten());
    Ok(keys(texts))
}

fn as_text(dialect: Dialect, name: &Name) -> String {
    match dialect {
        Dialect::Postgres => format!("{}::text", name.quoted()),
        Dialect::Sqlite => format!("cast({} as text)", name.quoted()),
    }
}

/// What is found of one key.
#[derive(Default)]
struct KeySample {
    objects: u64,
    words: BTreeMap<String, u64>,
    other_than_text: bool,
}

/// The keys of those texts that are objects. Only values that may be a state are kept of what stands there.
fn keys(texts: impl Iterator<Item = String>) -> Vec<Member> {
    let (mut objects, mut found) = (0_u64, BTreeMap::<String, KeySample>::new());
    for text in texts {
        let Ok(Value::Object(object)) = serde_json::from_str::<Value>(&text) else { continue };
        objects += 1;
        for (key, value) in object {
            let may_tell_state = may_tell_state(&key);
            let seen = found.entry(key).or_default();
            seen.objects += 1;
            let word = match value {
                _ if !may_tell_state => continue,
                Value::String(word) => word,
                Value::Bool(_) | Value::Number(_) => {
                    seen.other_than_text = true;
                    value.to_string()
                }
                Value::Null | Value::Array(_) | Value::Object(_) => continue,
            };
            *seen.words.entry(word).or_default() += 1;
        }
    }
    let member = |(key, seen): (String, KeySample)| {
        let is_state =
            seen.words.len() <= WORDS_MAX && seen.words.keys().all(|word| word.chars().count() <= WORD_CHARS_MAX);
        let words = seen.words.into_iter().filter(|_| is_state);
        let mut words: Vec<Word> = words.map(|(text, rows)| Word { text, rows, stamped: 0 }).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.rows));
        Member {
            key,
            common: seen.objects * 2 >= objects,
            lacking: objects - seen.objects,
            words,
            is_text: !seen.other_than_text,
        }
    };
    found.into_iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_many_values_is_no_state_and_none_of_them_is_kept() {
        let found = keys((0..20).map(|n| format!(r#"{{"state":"Town {n}","processed":{}}}"#, n % 2 == 0)));
        assert_eq!((found[1].key.as_str(), found[1].words.len()), ("state", 0));
        assert_eq!((found[0].words[0].text.as_str(), found[0].words[0].rows, found[0].is_text), ("false", 10, false));
    }

    #[test]
    fn objects_tell_their_keys_and_nothing_of_what_stands_there_but_words_of_a_state() {
        let texts = [
            r#"{"a":"secret","outbox_status":"pending"}"#,
            r#"{"outbox_status":"sent"}"#,
            r#"{"outbox_status":"sent"}"#,
            "[1]",
            "no",
        ];
        let found = keys(texts.iter().map(|text| (*text).to_owned()));
        assert_eq!((found[0].key.as_str(), found[0].common, found[0].words.len()), ("a", false, 0));
        assert!(found[1].common && found[1].is_text);
        assert_eq!((found[0].lacking, found[1].lacking), (2, 0));
        assert_eq!(
            found[1].words.iter().map(|w| (w.text.as_str(), w.rows)).collect::<Vec<_>>(),
            [("sent", 2), ("pending", 1)]
        );
    }
}
