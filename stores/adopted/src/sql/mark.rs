//! What marks rows, and counts them.

use super::Writer;
use super::settle::ours;
use crate::executor::Dialect;
use crate::mapping::Mapping;

/// A statement that marks rows and brings their ids.
pub(super) struct Mark {
    /// What it reads that must stand before it.
    pub(super) with: Option<String>,
    pub(super) text: String,
    /// What runs after it.
    pub(super) then: Option<String>,
}

impl Mark {
    pub(super) fn new(text: String) -> Self {
        Self { with: None, text, then: None }
    }

    /// The statements, of which the first brings the ids.
    pub(super) fn texts(self) -> Vec<String> {
        let text = match self.with {
            Some(with) => format!("with {with} {}", self.text),
            None => self.text,
        };
        [text].into_iter().chain(self.then).collect()
    }

    /// The same, and counts them as delivered where one statement can do both.
    pub(super) fn counted(self, mapping: &Mapping, writer: &Writer<'_>) -> Vec<String> {
        if writer.dialect == Dialect::Sqlite {
            return self.texts();
        }
        let [total, stat] = counts(mapping, writer, "(select count(*) from marked)");
        let with = self.with.map(|with| format!("{with}, ")).unwrap_or_default();
        vec![format!(
            "with {with}marked(id) as ({}), total as ({total}), stat as ({stat}) select id from marked",
            self.text
        )]
    }
}

/// Counts what is about to be marked, where that takes statements of their own. Fields: `id`, `fence`.
pub(super) fn counted_apart(mapping: &Mapping, writer: &Writer<'_>) -> Vec<String> {
    if writer.dialect == Dialect::Postgres {
        return Vec::new();
    }
    let agree = format!(
        "(select count(*) from {}, {} t where {})",
        writer.unpacked("$3", &["id", "fence"]),
        mapping.table.quoted(),
        super::meant(mapping, writer, &ours(mapping, writer))
    );
    counts(mapping, writer, &agree).to_vec()
}

fn minute(writer: &Writer<'_>) -> &'static str {
    match writer.dialect {
        Dialect::Postgres => "date_trunc('minute', statement_timestamp())",
        Dialect::Sqlite => "cast($2 as integer) / 60000000 * 60000000",
    }
}

/// Adds failed tries to what this minute saw. Fields: `state`.
pub(super) fn failed(mapping: &Mapping, writer: &Writer<'_>) -> String {
    format!(
        "insert into {} as s (source, route, minute, retried, dead) select $1, $4, {}, \
         count(case when x.state = 'retrying' then 1 end), count(case when x.state = 'dead' then 1 end) \
         from {} where {} having count(*) > 0 on conflict (source, route, minute) do update set \
         retried = s.retried + excluded.retried, dead = s.dead + excluded.dead",
        writer.own("stat"),
        minute(writer),
        writer.unpacked("$3", &["state"]),
        ours(mapping, writer)
    )
}

/// Adds so many deliveries: in all, and in this minute.
pub(super) fn counts(mapping: &Mapping, writer: &Writer<'_>, many: &str) -> [String; 2] {
    let minute = minute(writer);
    let total = format!("update {} set delivered = delivered + {many} where name = $4", writer.own("adopted_route"));
    let stat = format!(
        "insert into {} as s (source, route, minute, delivered) select $1, $4, {minute}, {many} where {} \
         on conflict (source, route, minute) do update set delivered = s.delivered + excluded.delivered",
        writer.own("stat"),
        ours(mapping, writer)
    );
    [total, stat]
}
