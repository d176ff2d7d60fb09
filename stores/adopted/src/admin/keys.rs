//! Keys that wait for an earlier row: looking at them, letting them go on.

use postroom_admin::view::{BlockedKey, KeyCursor};
use postroom_core::{Actor, DeliveryState, StoreError, StoreErrorKind};

use super::query::{Query, number, text};
use super::routes::Registered;
use super::tables::{Action, moment};
use crate::executor::{Row, Rows, Statement};
use crate::sql::order_key;
use crate::store::{Inner, clock};

pub(super) async fn blocked(
    inner: &Inner,
    route: Option<&str>,
    after: Option<&KeyCursor>,
    limit: usize,
) -> Result<Vec<BlockedKey>, StoreError> {
    let mut blocked = Vec::new();
    for known in super::routes::registered(inner).await? {
        if route.is_none_or(|route| route == known.name) {
            let rows = heads(inner, &known, None, after, limit).await?;
            blocked.extend(rows.iter().map(|row| blocked_key(inner, &known, row)));
        }
    }
    blocked.sort_by(|a, b| (a.head_position, &a.key, &a.route).cmp(&(b.head_position, &b.key, &b.route)));
    blocked.truncate(limit);
    Ok(blocked)
}

fn blocked_key(inner: &Inner, route: &Registered, row: &Row) -> BlockedKey {
    BlockedKey {
        store: inner.name.clone(),
        route: route.name.clone(),
        key: text(row, 1).unwrap_or_default(),
        head_id: text(row, 2).unwrap_or_default(),
        head_position: number(row, 3),
        head_state: DeliveryState::Retrying,
        attempts: number(row, 4),
        code: text(row, 5),
        error: text(row, 6),
        due_at: text(row, 7).and_then(|micros| micros.parse().ok()).map(moment),
        waiting: number(row, 8),
        since: moment(number(row, 9)),
    }
}

/// Rows that keep their keys waiting, after that one; only of one key if it is given.
async fn heads(
    inner: &Inner,
    route: &Registered,
    key: Option<&str>,
    after: Option<&KeyCursor>,
    limit: usize,
) -> Result<Rows, StoreError> {
    if !inner.mapping.ordered {
        return Ok(Vec::new());
    }
    let mut query = Query::of(inner, route);
    let column = query.key();
    let (next, now) = (query.next_attempt(), query.now());
    query.and(query.is_pending());
    query.and(format!("{next} > {now} and {column} is not null and s.due is not null and s.blocks"));
    if let Some(key) = key {
        let key = query.value(key);
        query.and(format!("{column} = {key}"));
    }
    let position = query.position();
    if let Some(after) = after {
        let (least, key) = (after.position, query.value(&after.key));
        query.and(format!("({position} > {least} or {position} = {least} and {column} > {key})"));
    }
    let other = query.writer.called("o");
    let pending = crate::sql::pending(&inner.mapping, &other);
    let others = if route.further {
        let entries = query.writer.own("adopted_delivery");
        format!(
            "(select count(*) from {entries} o where o.mapping = s.mapping and o.route = s.route and o.key = s.key \
             and o.due is not null)"
        )
    } else {
        format!(
            "(select count(*) from {} o where {pending} and {} = {column})",
            inner.mapping.table.quoted(),
            order_key(&inner.mapping, &other).unwrap_or_default()
        )
    };
    let columns = [
        query.row(),
        column.clone(),
        query.event_id(),
        format!("cast({position} as text)"),
        query.attempts(),
        "s.code".to_owned(),
        "s.error".to_owned(),
        query.writer.micros(&next),
        format!("cast({others} - 1 as text)"),
        query.writer.micros(&format!("coalesce(s.since, {})", query.occurred_at())),
    ];
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let statement =
        format!("select {} {} order by {position}, {column} limit {limit}", columns.join(", "), query.from());
    query.fetch("keys", statement).await
}

pub(super) async fn unblock(inner: &Inner, route: &str, key: &str, actor: &Actor) -> Result<u64, StoreError> {
    let (known, head) = head(inner, route, key).await?;
    let writer = inner.writer();
    let (table, row) = if known.further { ("adopted_delivery", "cast(number as text)") } else { ("sidecar", "row_id") };
    let free =
        format!("update {} set blocks = false where mapping = $1 and {row} = $2 returning row_id", writer.own(table));
    let free = Statement::new(free).bind(&inner.mapping_name).bind(text(&head, 0).unwrap_or_default());
    let waiting: u64 = number(&head, 8);
    let action = Action::new(actor, "key.unblock", format!("{route}/{key}"));
    action.run(inner, "unblock", vec![goes_on(inner, route), free], move |_| Some(waiting)).await?;
    inner.wake.wake();
    Ok(waiting)
}

pub(super) async fn skip_head(inner: &Inner, route: &str, key: &str, actor: &Actor) -> Result<String, StoreError> {
    let (known, head) = head(inner, route, key).await?;
    let (row, id) = (text(&head, 0).unwrap_or_default(), text(&head, 2).unwrap_or_default());
    let (code, error) = ("operator.skipped", format!("given up by {}", actor.name));
    let failed = serde_json::json!([{
        "id": row, "event_id": id, "key": key, "state": "dead", "after": "0", "attempts": text(&head, 4),
        "code": code, "error": error, "held": inner.mapping.held(false),
    }]);
    let mut statements = vec![goes_on(inner, route)];
    let operator = if known.further {
        vec![crate::sql::further::given_up(&inner.writer()).into()]
    } else {
        crate::sql::operate::given_up(&inner.mapping, &inner.writer(), &inner.dead_letters)
    };
    for text_of in operator {
        let statement = Statement::new(text_of).bind(&inner.mapping_name).bind(clock());
        statements.push(statement.bind(failed.to_string()));
    }
    let action = Action::new(actor, "key.skip_head", format!("{route}/{key}"));
    action.run(inner, "skip-head", statements, |_| Some(1)).await?;
    inner.wake.wake();
    Ok(id)
}

/// Tells relays that keys go on: one that has walked past their rows begins anew. Before anything else, as relays lock
/// the route before rows.
fn goes_on(inner: &Inner, route: &str) -> Statement {
    let routes = inner.writer().own("adopted_route");
    Statement::new(format!("update {routes} set unblocked = unblocked + 1 where name = $1")).bind(route)
}

async fn head(inner: &Inner, route: &str, key: &str) -> Result<(Registered, Row), StoreError> {
    let known = super::routes::need(inner, route, "keys").await?;
    let heads = heads(inner, &known, Some(key), None, 1).await?;
    heads.into_iter().next().map(|head| (known, head)).ok_or_else(|| {
        let message = format!("nothing waits behind a failed event of key {key:?} on route {route:?}");
        StoreError::new(StoreErrorKind::NotFound, "keys", message)
            .hint("`postroom key ls --blocked` shows keys that wait")
    })
}
