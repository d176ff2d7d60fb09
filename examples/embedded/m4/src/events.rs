//! What happens: three types of events, and the envelope they all have.

use postroom::postgres::sqlx;
use postroom::{Event, Failure, ToEvent};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{M4, Tx};

/// A station's meter has been read for a window of time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TelemetryWindowClosed {
    /// The station.
    pub station: String,
    /// What it read.
    pub kwh: i64,
}

/// A window has become a number people look at.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StatisticCalculated {
    /// The station.
    pub station: String,
    /// The number.
    pub kwh: i64,
}

/// A number has become money.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SettlementCalculated {
    /// The station.
    pub station: String,
    /// The money.
    pub cents: i64,
}

macro_rules! event {
    ($name:ident) => {
        impl ToEvent for $name {
            fn to_event(&self) -> Result<Event, serde_json::Error> {
                let event = Event::new(stringify!($name)).tenant("acme");
                event.attribute("station_id", self.station.as_str()).json(self)
            }
        }
    };
}
event!(TelemetryWindowClosed);
event!(StatisticCalculated);
event!(SettlementCalculated);

/// Writes an event, in its envelope, in the transaction of what it speaks of.
pub async fn append(tx: &mut Tx, event: &Event) -> Result<(), Failure> {
    let envelope = json!({
        "event_id": event.id,
        "occurred_at": event.occurred_at.to_string(),
        "correlation_id": event.correlation(), // that of the task, else the event's own id
        "tenant_id": event.tenant,
        "station_id": event.attributes.get("station_id"),
        "schema_version": event.schema_version,
        "payload": event.payload_json(),
    });
    sqlx::query("insert into event_outbox (id, event_id, event_type, payload) values ($1, $1, $2, $3::jsonb)")
        .bind(&event.id)
        .bind(&event.event_type)
        .bind(envelope.to_string())
        .execute(&mut **tx)
        .await?;
    Ok(())
}

impl M4 {
    /// Closes a window: the reading and its event are one commit. A meter that runs backwards takes both back.
    pub async fn close_window(&self, station: &str, kwh: i64) -> Result<(), Failure> {
        let mut tx = self.begin().await?;
        append(&mut tx, &TelemetryWindowClosed { station: station.to_owned(), kwh }.to_event()?).await?;
        sqlx::query("insert into windows values ($1, $2)").bind(station).bind(kwh).execute(&mut *tx).await?;
        if kwh < 0 {
            return Err(Failure::permanent("m4.meter", format!("the meter of {station} runs backwards")));
        }
        Ok(tx.commit().await?)
    }
}
