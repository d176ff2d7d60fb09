//! Routes of adopted tables: registration, who holds them, who lives.

use postroom_core::faults::{self, Fault};
use postroom_core::{RelayIdentity, RouteHealth, RouteSpec, StartFrom, StoreError, StoreErrorKind, valid_name};
use serde::Serialize;
use serde_json::json;

use crate::executor::{Dialect, Row, Statement};
use crate::sql::Writer;
use crate::store::{Inner, clock};

/// Whether a heartbeat holds. One that lies further ahead than its lease is of before the clock was set back.
pub(crate) fn is_alive(relay: &str, now: &str) -> String {
    if faults::is(Fault::AliveWhateverTheClock) {
        return format!("({relay}.alive_until > {now})");
    }
    format!("({relay}.alive_until > {now} and {relay}.seen_at - {now} <= {relay}.alive_until - {relay}.seen_at)")
}

/// Whether the route `r` may be taken by `$2`: nobody holds it, we do, or its holder is dead; and we live.
fn is_free(writer: &Writer<'_>, now: &str) -> String {
    let relay = writer.own("relay");
    let (holder, ours) = (is_alive("h", now), is_alive("m", now));
    format!(
        "(r.holder is null or r.holder = $2 \
           or not exists (select 1 from {relay} h where h.source = r.mapping and h.boot = r.holder and {holder})) \
         and exists (select 1 from {relay} m where m.source = r.mapping and m.boot = $2 and {ours})"
    )
}

/// Whether the route is paused, ours, free for us; its term; whether it is another's; how often its keys were let go on; when
/// to try the destination; whether the table has further routes. `$1` route, `$2` boot, `$3` our clock.
pub(crate) fn look(inner: &Inner, route: &str, boot: &str) -> Statement {
    let writer = inner.writer();
    let routes = writer.own("adopted_route");
    let text = format!(
        "select case when r.paused_by is null then 'no' else 'yes' end, \
         case when r.holder = $2 then 'yes' else 'no' end, \
         case when {} then 'yes' else 'no' end, \
         cast(r.term as text), case when r.holder <> $2 then 'yes' else 'no' end, cast(r.unblocked as text), {}, \
         case when exists (select 1 from {routes} f where f.mapping = r.mapping and f.further) then 'yes' else 'no' end \
         from {routes} r where r.name = $1 and $3 is not null",
        is_free(&writer, &writer.now("$3")),
        writer.micros("r.probe_at"),
    );
    Statement::new(text).bind(route).bind(boot).bind(clock())
}

/// Takes the route under the next term, if nobody alive holds it. The last statement brings the term.
pub(crate) fn acquire(inner: &Inner, route: &str, boot: &str) -> Vec<Statement> {
    let writer = inner.writer();
    let (routes, relays) = (writer.own("adopted_route"), writer.own("relay"));
    let take = format!(
        "update {routes} as r set holder = $2, term = r.term + 1 \
         where r.name = $1 and r.paused_by is null and $3 is not null and {} returning cast(term as text)",
        is_free(&writer, &writer.now("$3")),
    );
    // Keeps the old holder from renewing until we have its route: one that renews meanwhile would look at the route before
    // it is gone, and go on beside us. SQLite has one writer at a time.
    let holder = format!(
        "select h.boot from {relays} h where h.boot <> $2 \
         and (h.source, h.boot) in (select r.mapping, r.holder from {routes} r where r.name = $1) for share"
    );
    let holder = (writer.dialect == Dialect::Postgres).then(|| Statement::new(holder).bind(route).bind(boot));
    holder.into_iter().chain([Statement::new(take).bind(route).bind(boot).bind(clock())]).collect()
}

/// Gives the route up and leaves; the heartbeat goes with the last route.
pub(crate) fn release(inner: &Inner, route: &str, boot: &str) -> Vec<Statement> {
    let writer = inner.writer();
    let relay = writer.own("relay");
    let free = format!("update {} set holder = null where name = $1 and holder = $2", writer.own("adopted_route"));
    let leave = match writer.dialect {
        Dialect::Postgres => format!("update {relay} set routes = routes - $1 where boot = $2 and source = $3"),
        Dialect::Sqlite => {
            format!("update {relay} set routes = json_remove(routes, $1) where boot = $2 and source = $3")
        }
    };
    let gone = format!("delete from {relay} where boot = $1 and source = $2 and routes = '{{}}'");
    // Heartbeats before routes, as who takes over locks them.
    vec![
        Statement::new(leave).bind(key(writer.dialect, route)).bind(boot).bind(&inner.mapping_name),
        Statement::new(gone).bind(boot).bind(&inner.mapping_name),
        Statement::new(free).bind(route).bind(boot),
    ]
}

/// Says that the relay lives for another lease, and how the route is doing.
pub(crate) fn heartbeat(inner: &Inner, relay: &RelayIdentity, route: &str, health: &RouteHealth) -> Statement {
    let writer = inner.writer();
    let now = writer.now("$4");
    let (until, routes, merged) = match writer.dialect {
        Dialect::Postgres => (
            format!("{now} + cast($5 as float8) * interval '1 millisecond'"),
            "jsonb_build_object($6, $7::jsonb)",
            "l.routes || excluded.routes",
        ),
        Dialect::Sqlite => (
            format!("{now} + cast($5 as integer) * 1000"),
            "json_set('{}', $6, json($7))",
            "json_patch(l.routes, excluded.routes)",
        ),
    };
    let text = format!(
        "insert into {} as l (boot, name, version, started_at, seen_at, alive_until, routes, source) \
         select $1, $2, $3, {now}, {now}, {until}, {routes}, $8 where $4 is not null \
         on conflict (source, boot) do update set seen_at = excluded.seen_at, alive_until = excluded.alive_until, routes = {merged}",
        writer.own("relay")
    );
    let health = json!(RouteHealth { message: health.message.replace('\0', "\u{fffd}"), ..health.clone() }).to_string();
    Statement::new(text)
        .bind(&relay.boot)
        .bind(&relay.name)
        .bind(&relay.version)
        .bind(clock())
        .bind(relay.lease.as_millis().to_string())
        .bind(key(writer.dialect, route))
        .bind(health)
        .bind(&inner.mapping_name)
}

/// A route's name as a key of a relay's `routes`.
fn key(dialect: Dialect, route: &str) -> String {
    match dialect {
        Dialect::Postgres => route.to_owned(),
        Dialect::Sqlite => format!("$.\"{route}\""),
    }
}

/// Registers the route if it is new; the last statement brings nothing when it was there. A further one begins with the rows
/// that are pending, or with those that come.
pub(crate) fn register(inner: &Inner, route: &RouteSpec) -> Vec<Statement> {
    let writer = inner.writer();
    let further = inner.mapping.is_further(&route.name);
    let mut statements = Vec::new();
    if further && writer.dialect == Dialect::Postgres {
        // One registration at a time, and no settle beside it: it knows of the new route, or is over.
        let meta = format!("select name from {} where name = 'schema_version' for update", writer.own("adopted_meta"));
        let first = format!(
            "select name from {} where mapping = $1 and not further order by name for update",
            writer.own("adopted_route")
        );
        statements.extend([Statement::new(meta), Statement::new(first).bind(&inner.mapping_name)]);
    }
    let old = match route.start {
        StartFrom::Beginning => None,
        StartFrom::Now => Some(String::new()),
        StartFrom::At(time) => Some(time.as_microsecond().to_string()),
    };
    if let Some(before) = old.filter(|_| further) {
        let begin = crate::sql::further::begin(&inner.mapping, &writer);
        let begin = Statement::new(begin).bind(&inner.mapping_name).bind(clock()).bind(before);
        statements.push(begin.bind(&route.name));
    }
    let json = if writer.dialect == Dialect::Postgres { "$3::jsonb" } else { "$3" };
    let text = format!(
        "insert into {} (name, mapping, filter, destination, on_failure, on_dead, registered_at, further, start) \
         select $1, $2, {json}, $4, $5, $6, {}, {further}, $8 where $7 is not null on conflict (name) do nothing returning name",
        writer.own("adopted_route"),
        writer.now("$7")
    );
    // The first route of a table delivers what is pending, whenever it comes.
    let start = if further { route.start } else { StartFrom::Beginning };
    let register = Statement::new(text)
        .bind(&route.name)
        .bind(&inner.mapping_name)
        .bind(json!(route.filter).to_string())
        .bind(&route.to)
        .bind(word(&route.on_failure))
        .bind(word(&route.on_dead))
        .bind(clock())
        .bind(start.to_string());
    statements.push(register);
    statements
}

/// The registered route: mapping, destination, what failure and death do, a live relay other than ours, and whether
/// it is a further one.
pub(crate) fn registered(inner: &Inner, route: &str, boot: &str) -> Statement {
    let writer = inner.writer();
    let serves = match writer.dialect {
        Dialect::Postgres => "jsonb_exists(l.routes, r.name)",
        Dialect::Sqlite => "json_type(l.routes, '$.\"' || r.name || '\"') is not null",
    };
    let text = format!(
        "select r.mapping, r.destination, r.on_failure, r.on_dead, \
         (select l.name || ' (' || l.boot || ')' from {} l where l.source = r.mapping and l.boot <> $2 and {} and {serves} limit 1), \
         case when r.further then 'yes' else 'no' end \
         from {} r where r.name = $1 and $3 is not null",
        writer.own("relay"),
        is_alive("l", &writer.now("$3")),
        writer.own("adopted_route")
    );
    Statement::new(text).bind(route).bind(boot).bind(clock())
}

/// Takes a changed definition over; whoever holds the route has lost it.
pub(crate) fn change(inner: &Inner, route: &RouteSpec) -> Statement {
    let text = format!(
        "update {} set mapping = $2, destination = $3, on_failure = $4, on_dead = $5, holder = null where name = $1",
        inner.writer().own("adopted_route")
    );
    let statement = Statement::new(text).bind(&route.name).bind(&inner.mapping_name).bind(&route.to);
    statement.bind(word(&route.on_failure)).bind(word(&route.on_dead))
}

/// Registers the route if it is new, else takes its changes over, and says that this relay serves it.
pub(crate) async fn join(inner: &Inner, relay: &RelayIdentity, route: &RouteSpec) -> Result<(), StoreError> {
    if !valid_name(&route.name) {
        let message = format!("{:?} cannot be a route's name", route.name);
        return Err(StoreError::new(StoreErrorKind::Invalid, "register", message)
            .hint("use lower-case letters, digits, `-`, `_` and `.`, at most 63"));
    }
    let mut statements = register(inner, route);
    statements.push(registered(inner, &route.name, &relay.boot));
    let found = inner.executor.run("register", statements).await?;
    let there = found.last().and_then(|rows| rows.first()).ok_or_else(|| not_registered(&route.name, "register"))?;
    need_same_part(inner, route, there)?;
    // Heartbeats before routes, as who takes over locks them.
    let mut statements = vec![heartbeat(inner, relay, &route.name, &RouteHealth::running())];
    if let Some(old) = differs(inner, route, there) {
        if let Some(other) = there.get(4).cloned().flatten() {
            let message = format!(
                "relay {other} serves route {:?} as {old}, this relay defines it as {} from {}",
                route.name, route.to, inner.mapping_name
            );
            return Err(StoreError::new(StoreErrorKind::Conflict, "register", message)
                .hint("give both relays the same definition, or stop the other one first"));
        }
        statements.push(change(inner, route));
    }
    inner.executor.run("register", statements).await.map(drop)
}

/// Fails if the route marked the rows and is to keep its state beside them, or the other way round: what it has delivered stands
/// elsewhere.
fn need_same_part(inner: &Inner, route: &RouteSpec, there: &Row) -> Result<(), StoreError> {
    let of = there.first().and_then(Option::as_deref).unwrap_or_default();
    let (was, is) = (there.get(5).and_then(Option::as_deref) == Some("yes"), inner.mapping.is_further(&route.name));
    let (name, table) = (&route.name, &inner.mapping_name);
    if was == is && (!was || of == table) {
        return Ok(());
    }
    let (message, hint) = if was {
        (
            format!("route {name:?} has its state beside {of}; it cannot mark rows, or go to another table"),
            format!(
                "name the route in `marked_by` that marks the rows, or run `postroom route forget {name}` to begin anew"
            ),
        )
    } else {
        (
            format!("route {name:?} marks the rows of {table}; it cannot have its state beside them"),
            format!(
                "set marked_by = {name:?} in the mapping of store {:?}, or give this route another name",
                inner.name
            ),
        )
    };
    Err(StoreError::new(StoreErrorKind::Conflict, "register", message).hint(hint))
}

/// What is registered, if it is something else.
fn differs(inner: &Inner, route: &RouteSpec, there: &Row) -> Option<String> {
    let of = |n: usize| there.get(n).and_then(Option::as_deref).unwrap_or_default();
    let new = [&inner.mapping_name, &route.to, &word(&route.on_failure), &word(&route.on_dead)];
    let same = new.iter().enumerate().all(|(n, new)| of(n) == new.as_str());
    (!same).then(|| format!("{} from {}", of(1), of(0)))
}

pub(crate) fn not_registered(route: &str, operation: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::NotFound, operation, format!("route {route:?} is not registered in this store"))
        .hint("`postroom route ls` shows the routes that are")
}

/// The word a setting is stored as.
fn word<T: Serialize>(value: &T) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}
