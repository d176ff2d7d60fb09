//! What is done about events. Each handler's work and its row in `processed_events` are one transaction.

use postroom::postgres::sqlx;
use postroom::{Failure, Handlers, Incoming, ToEvent};

use crate::M4;
use crate::events::{SettlementCalculated, StatisticCalculated, TelemetryWindowClosed, append};

/// All of them, by the type of event they want.
pub(crate) fn all(m4: &M4) -> Handlers {
    Handlers::new()
        .on("TelemetryWindowClosed", "statistics", with(m4, statistics))
        .on("StatisticCalculated", "dashboard", with(m4, dashboard))
        .on("StatisticCalculated", "settlement", with(m4, settlement))
        .on("SettlementCalculated", "invoices", with(m4, invoices))
        .in_flight(4)
}

fn with<R, H: Fn(M4, Incoming) -> R>(m4: &M4, handler: H) -> impl Fn(Incoming) -> R + use<R, H> {
    let m4 = m4.clone();
    move |event| handler(m4.clone(), event)
}

async fn statistics(m4: M4, event: Incoming) -> Result<(), Failure> {
    let Some(mut tx) = m4.accept("statistics", &event).await? else { return Ok(()) };
    let TelemetryWindowClosed { station, kwh } = event.payload_as()?;
    append(&mut tx, &StatisticCalculated { station, kwh }.to_event()?.caused_by(&event)).await?;
    Ok(tx.commit().await?)
}

async fn dashboard(m4: M4, event: Incoming) -> Result<(), Failure> {
    let Some(mut tx) = m4.accept("dashboard", &event).await? else { return Ok(()) };
    let StatisticCalculated { station, kwh } = event.payload_as()?;
    let add = "insert into dashboards as d values ($1, $2, 1) \
               on conflict (station) do update set kwh = d.kwh + excluded.kwh, updates = d.updates + 1";
    sqlx::query(add).bind(station).bind(kwh).execute(&mut *tx).await?;
    Ok(tx.commit().await?)
}

async fn settlement(m4: M4, event: Incoming) -> Result<(), Failure> {
    let Some(mut tx) = m4.accept("settlement", &event).await? else { return Ok(()) };
    let StatisticCalculated { station, kwh } = event.payload_as()?;
    let tariff = sqlx::query_scalar::<_, i64>("select cents_per_kwh from tariffs where station = $1").bind(&station);
    let Some(tariff) = tariff.fetch_optional(&mut *tx).await? else {
        return Err(Failure::transient("m4.tariff", format!("{station} has no tariff")));
    };
    let cents = kwh * tariff;
    sqlx::query("insert into settlements values ($1, $2)").bind(&station).bind(cents).execute(&mut *tx).await?;
    append(&mut tx, &SettlementCalculated { station, cents }.to_event()?.caused_by(&event)).await?;
    Ok(tx.commit().await?)
}

async fn invoices(m4: M4, event: Incoming) -> Result<(), Failure> {
    let Some(mut tx) = m4.accept("invoices", &event).await? else { return Ok(()) };
    let SettlementCalculated { station, cents } = event.payload_as()?;
    sqlx::query("insert into invoices values ($1, $2)").bind(station).bind(cents).execute(&mut *tx).await?;
    Ok(tx.commit().await?)
}
