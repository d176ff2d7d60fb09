//! Functions that let programs in any language share a table with relays: publish, poll, finalize and accept, as the
//! mapping says. PostgreSQL only.
//!
//! They keep to the protocol of [`super::claim`]: who has claimed a row counts in its column, a claim that is over is
//! anybody's, and rows in back-off wait.

use super::columns::Columns;
use super::{Writer, literal, pending};
use crate::mapping::{ColumnPath, Death, InboxTable, Mapping, Name, State};

/// The functions that a mapping has, as a script; empty where it has none.
pub(crate) fn script(mapping: &Mapping, writer: &Writer<'_>, log: &Columns) -> String {
    let writer = &writer.called("t");
    let mut texts = Vec::new();
    texts.extend(mapping.claimed().and_then(|_| publish(mapping, writer)));
    texts.extend(finalize(mapping, writer, log));
    texts.extend(poll(mapping, writer));
    texts.extend(mapping.inbox.as_ref().map(|inbox| accept(writer, inbox)));
    texts.join("\n")
}

/// Removes them.
pub(crate) fn drop_script(writer: &Writer<'_>) -> String {
    let names = ["publish(text, jsonb)", "poll(interval)", "accept(text, text)"];
    let schema = Name::new(writer.schema).quoted();
    let known: Vec<String> = names.iter().map(|name| format!("drop function if exists {schema}.{name};\n")).collect();
    // The type of its first argument is that of the table's row.
    let finalize = format!(
        "do $$ declare f regprocedure; begin \
         for f in select oid from pg_proc where pronamespace = {}::regnamespace and proname = 'finalize' loop \
         execute 'drop function ' || f; end loop; end $$;\n",
        literal(&schema)
    );
    known.concat() + &finalize
}

fn function(writer: &Writer<'_>, head: &str, returns: &str, body: &str) -> String {
    format!(
        "create or replace function {}.{head} returns {returns} language plpgsql as $postroom$\n{body}\n$postroom$;",
        Name::new(writer.schema).quoted()
    )
}

/// Adds a pending row.
fn publish(mapping: &Mapping, writer: &Writer<'_>) -> Option<String> {
    let State::Words { path: word, pending, .. } = &mapping.state else { return None };
    let (event_type, payload) = (mapping.event.event_type.as_column()?, mapping.event.payload.as_column()?);
    let attempts = mapping.attempts.as_ref()?.as_column()?;
    let (table, of) = (mapping.table.quoted(), Name::quoted);
    let columns = [event_type, payload, &word.column, attempts].map(of).join(", ");
    let body = format!(
        "declare\n  postroom_type {table}.{}%type := $1;\n  postroom_payload {table}.{}%type := $2;\n  postroom_event {table};\n\
         begin\n  insert into {table} ({columns}) values (postroom_type, postroom_payload, {}, 0) returning * into postroom_event;\n  \
         return postroom_event;\nend",
        of(event_type),
        of(payload),
        literal(pending),
    );
    Some(function(writer, "publish(event_type text, payload jsonb)", &table, &body))
}

/// Claims the next row: none, or one. Gives up those that were abandoned too often.
fn poll(mapping: &Mapping, writer: &Writer<'_>) -> Option<String> {
    let claimed = mapping.claimed()?;
    let State::Words { path: word, .. } = &mapping.state else { return None };
    let attempts = mapping.attempts.as_ref()?.as_column()?;
    let (table, row, sidecar) = (mapping.table.quoted(), writer.of(&mapping.row), writer.own("sidecar"));
    let now = "statement_timestamp()";
    let since = writer.moment(&ColumnPath::column(claimed.since.clone()));
    let beside = format!(
        "s.mapping = {} and s.row_id = {}",
        literal(&mapping.table.to_string()),
        writer.text(&ColumnPath::column(mapping.row.clone()))
    );
    let default = claimed.lease.as_micros();
    let worn_out = claimed.claims_max.map(|max| {
        let returned = writer.called("postroom_event");
        let excused = format!(
            "coalesce((select s.excused from {sidecar} s where s.mapping = {} and s.row_id = {}), 0)",
            literal(&mapping.table.to_string()),
            returned.text(&ColumnPath::column(mapping.row.clone()))
        );
        let count = returned.of(attempts);
        format!(
            "    if {count} - 1 - {excused} >= {max} then\n      perform {}.finalize({}, jsonb_build_array(jsonb_build_object('error', \
             'it was claimed ' || {count} - 1 || ' times and never finished')), {count});\n      continue;\n    end if;\n",
            Name::new(writer.schema).quoted(),
            returned.of(&mapping.row),
        )
    });
    let body = format!(
        "declare\n  postroom_event {table};\nbegin\n  loop\n    with picked as materialized (\n      select {row} as postroom_row \
         from {table} t\n      where ({} or {} = {} and ({since} < {now} - $1 or {since} > {now} + $1))\n      and not exists \
         (select 1 from {sidecar} s where {beside} and s.due > {now} offset 0)\n      order by {} limit 1 for update of t skip locked)\n    \
         update {table} as t set {} = {}, {} = {}, {} = coalesce({}, 0) + 1\n    from picked where {row} = picked.postroom_row \
         returning t.* into postroom_event;\n    exit when not found;\n{}    return next postroom_event;\n    exit;\n  end loop;\nend",
        pending(mapping, writer),
        writer.of(&word.column),
        literal(&claimed.word),
        super::take::in_order(mapping, writer),
        word.column.quoted(),
        literal(&claimed.word),
        claimed.since.quoted(),
        writer.stored_moment(&claimed.since, now),
        attempts.quoted(),
        writer.of(attempts),
        worn_out.unwrap_or_default(),
    );
    let head = format!("poll(abandoned_after interval default {default} * interval '1 microsecond')");
    Some(function(writer, &head, &format!("setof {table}"), &body))
}

/// Ends a row: completed without errors, dead with some. Says whether it was there, and claimed as often as is said.
fn finalize(mapping: &Mapping, writer: &Writer<'_>, log: &Columns) -> Option<String> {
    mapping.claimed()?;
    let State::Words { path: word, done, .. } = &mapping.state else { return None };
    let Death::Word(dead) = &mapping.death else { return None };
    let attempts = mapping.attempts.as_ref()?.as_column()?;
    let (table, row, sidecar) = (mapping.table.quoted(), writer.of(&mapping.row), writer.own("sidecar"));
    let kind = writer.columns.get(&mapping.row).map_or("text", |column| column.spelt.as_str());
    let fenced = format!("{row} = $1 and ($3 is null or {} = $3)", writer.of(attempts));
    let state = |there: &Writer<'_>| {
        let [done, dead] = [done, dead].map(|word_of| there.row_id(&word.column, &literal(word_of)));
        format!("case when jsonb_array_length($2) = 0 then {done} else {dead} end")
    };
    let is_over = match &mapping.log {
        Some(to) => {
            let (gone, there) = (writer.called("postroom_event"), Writer { columns: log, ..writer.clone() });
            let mut values = vec![(word.column.clone(), state(&there))];
            let errors = to.errors.iter().map(|name| (name.clone(), there.row_id(name, "$2::text")));
            values.extend(errors.filter(|(name, _)| log.get(name).is_some()));
            let at = to.at.iter().map(|name| (name.clone(), there.stored_moment(name, "statement_timestamp()")));
            values.extend(at);
            let values = super::archive::with_the_rest(&gone, values, log);
            let (names, values): (Vec<String>, Vec<String>) =
                values.into_iter().map(|(name, value)| (name.quoted(), value)).unzip();
            format!(
                "  delete from {table} as t where {fenced} returning t.* into postroom_event;\n  if not found then\n    return false;\n  \
                 end if;\n  insert into {} ({}) overriding system value values ({}) on conflict do nothing;\n",
                to.table.quoted(),
                names.join(", "),
                values.join(", ")
            )
        }
        None => format!(
            "  update {table} as t set {} = {} where {fenced} and {} = {} returning t.* into postroom_event;\n  \
             if not found then\n    return false;\n  end if;\n",
            word.column.quoted(),
            state(writer),
            writer.of(&word.column),
            literal(&mapping.claimed()?.word),
        ),
    };
    let body = format!(
        "declare\n  postroom_event {table};\nbegin\n{is_over}  delete from {sidecar} s where s.mapping = {} and s.row_id = $1::text;\n  \
         return true;\nend",
        literal(&mapping.table.to_string())
    );
    let head = format!("finalize(id {kind}, errors jsonb default '[]', attempts integer default null)");
    Some(function(writer, &head, "boolean", &body))
}

/// Accepts an event for a consumer, in the consumers' own table. Says whether it is new.
fn accept(writer: &Writer<'_>, inbox: &InboxTable) -> String {
    let (table, of) = (inbox.table.quoted(), Name::quoted);
    let (consumer, id) = (of(&inbox.consumer), of(&inbox.id));
    let (at, now) = inbox
        .at
        .as_ref()
        .map_or_else(Default::default, |name| (format!(", {}", of(name)), ", statement_timestamp()".to_owned()));
    let body = format!(
        "declare\n  postroom_consumer {table}.{consumer}%type := $1;\n  postroom_id {table}.{id}%type := $2;\nbegin\n  \
         insert into {table} ({consumer}, {id}{at}) values (postroom_consumer, postroom_id{now}) on conflict do nothing;\n  \
         return found;\nend"
    );
    function(writer, "accept(consumer text, id text)", "boolean", &body)
}
