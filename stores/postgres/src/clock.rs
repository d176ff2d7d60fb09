//! Times as the tables hold them, and the database's clock.
//!
//! Leases, due times and retention go by the database's clock, whatever the relay's machine thinks. Only tests give a
//! store another one.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

/// Microseconds from 1970 to 2000, where PostgreSQL counts from.
const EPOCH: i64 = 946_684_800_000_000;

/// Whole microseconds since 1970, UTC; a `timestamptz` in SQL. `infinity` is the last time there is: other languages append
/// here, and a row that cannot be read would stop every route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) i64);

impl Type<Postgres> for Time {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("timestamptz")
    }
}

impl PgHasArrayType for Time {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("_timestamptz")
    }
}

impl Encode<'_, Postgres> for Time {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0.saturating_sub(EPOCH), buf)
    }
}

impl Decode<'_, Postgres> for Time {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        if value.format() == PgValueFormat::Text {
            return Err("times are read in the binary format only".into());
        }
        let micros = i64::from_be_bytes(value.as_bytes()?.try_into()?);
        Ok(Self(micros.saturating_add(EPOCH)))
    }
}

/// A time as the tables hold it.
pub(crate) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

/// A time out of the tables; what no calendar can hold becomes the nearest one it can.
pub(crate) fn timestamp(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(if micros < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// A length of time as the tables hold it.
pub(crate) fn span(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

/// A length of time out of the tables; a negative one is none.
pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
