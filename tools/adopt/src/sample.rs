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

/// Some rows from either end of the table.
fn ends(facts: &Facts, select: &str, condition: &str, rows: usize) -> String {
    let table = facts.table.quoted();
    let front = format!("select * from (select {select} from {table}{condition} limit {rows}) f");
    match facts.keys.first().map(Vec::as_slice) {
        Some([key]) => {
            let back = format!("select {select} from {table}{condition} order by {} desc limit {rows}", key.quoted());
            format!("{front} union all select * from ({back}) b")
        }
        _ => front,
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
    let text = ends(facts, &format!("{cast} as o"), &condition, OBJECT_ROWS);
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

/// The keys of those texts that are objects. Only words of a state are kept of what stands there.
fn keys(texts: impl Iterator<Item = String>) -> Vec<Member> {
    let (mut objects, mut found) = (0_usize, BTreeMap::<String, (usize, BTreeMap<String, u64>)>::new());
    for text in texts {
        let Ok(Value::Object(object)) = serde_json::from_str::<Value>(&text) else { continue };
        objects += 1;
        for (key, value) in object {
            let state = names::state_prefix(&key).is_some();
            let (count, words) = found.entry(key).or_default();
            *count += 1;
            if let Value::String(word) = value
                && state
            {
                *words.entry(word).or_default() += 1;
            }
        }
    }
    let member = |(key, (count, words)): (String, (usize, BTreeMap<String, u64>))| {
        let mut words: Vec<Word> = words.into_iter().map(|(text, rows)| Word { text, rows, stamped: 0 }).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.rows));
        words.truncate(WORDS_MAX);
        Member { key, common: count * 2 >= objects, words }
    };
    found.into_iter().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(found[1].common);
        assert_eq!(
            found[1].words.iter().map(|w| (w.text.as_str(), w.rows)).collect::<Vec<_>>(),
            [("sent", 2), ("pending", 1)]
        );
    }
}
