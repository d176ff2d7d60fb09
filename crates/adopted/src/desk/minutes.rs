//! What the route did, minute by minute.

use postroom_core::view::MinuteRow;
use postroom_core::{StoreError, Timestamp};

use super::actions::moment;
use super::query::{number, text};
use crate::ground::Statement;
use crate::store::Inner;

/// Served by the table's primary key, (route, minute).
pub(super) async fn list(inner: &Inner, route: Option<&str>, from: Timestamp) -> Result<Vec<MinuteRow>, StoreError> {
    let writer = inner.writer();
    let statement = format!(
        "select s.route, {}, cast(s.delivered as text), cast(s.retried as text), cast(s.dead as text) from {} s \
         join {} r on r.name = s.route where r.layout = $1 and ($2 is null or s.route = $2) and s.minute >= {} \
         order by s.route, s.minute",
        writer.micros("s.minute"),
        writer.own("adopted_stat"),
        writer.own("adopted_route"),
        writer.at_micros("$3"),
    );
    let from = from.as_microsecond().div_euclid(60_000_000) * 60_000_000;
    let statement = Statement::new(statement).bind(&inner.layout_name).bind_or_null(route).bind(from.to_string());
    let found = inner.ground.look("minutes", vec![statement]).await?;
    let minute = |row: crate::ground::Row| MinuteRow {
        store: inner.name.clone(),
        route: text(&row, 0).unwrap_or_default(),
        minute: moment(number(&row, 1)),
        delivered: number(&row, 2),
        retried: number(&row, 3),
        dead: number(&row, 4),
    };
    Ok(found.into_iter().flatten().map(minute).collect())
}
