//! Faults that were found, for tests that must catch them. They are compiled with the feature `broken` only, and even then nothing is
//! broken until a test says so, or `XTASK_BROKEN` names one when the process starts.

/// One of them; the numbers are those of the findings it was found by, or of `docs/hazards.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A take asks only the table which keys are blocked, not what it has parked itself (finding 0).
    ParkedIsForgotten = 1,
    /// A reader knows segments by their place among the partitions (finding 1).
    SegmentsModuloPartitions,
    /// Answers that are no open the breaker (finding 2).
    AnswersOpenTheBreaker,
    /// The server lets a transaction stand idle for ever (finding 3).
    IdleForEver,
    /// The server lets a transaction that holds rows of an adopted table stand idle for ever (finding 4).
    RowsAreHeldForEver,
    /// A transaction is taken to have no number up to the last one drawn before the read that first sees it (finding 5).
    DrawnTooLate,
    /// Events that routes have passed are not looked for when a cluster is accepted or repaired (finding 6).
    PassedIsLost,
    /// A copy in another database of the same cluster is served (finding 7).
    CopiesAreServed,
    /// A heartbeat holds until it is over, however far ahead that lies since the clock was set back (finding 8).
    AliveWhateverTheClock,
    /// A claim that was given back untried counts as one that ran out (finding 9).
    UntriedClaimsCount,
    /// Due retries go before everything fresh (finding 10).
    RetriesFirst,
    /// An event that waits behind an earlier one of its key stops its lane (finding 11).
    FollowersStopTheLane,
    /// A reader that begins anew takes what it reads next for passed (H-113).
    ReadCountsAsPassed,
    /// An event that went back is held against the take that brings it again (H-116).
    GoesBackForEver,
    /// An event that goes back does not block what is later of its key (H-117).
    GivenBackIsOvertaken,
    /// A row that is committed late at a place that the walk through an adopted table has passed is overtaken (H-119).
    LateIsOvertaken,
    /// A transport that pipelines keys goes on holding back the rest of a key after the engine has heard of a failure (H-123).
    HeardIsForgotten,
    /// A relay that has lost its lane still writes what came of its deliveries.
    Unfenced,
    /// A row of an adopted table is marked for its first route alone, and further ones never hear of it (H-157).
    FurtherIsForgotten,
}

#[cfg(feature = "broken")]
static NOW: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);
#[cfg(feature = "broken")]
static NAMED: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| std::env::var("XTASK_BROKEN").ok());

/// Puts a fault back, or none, in the whole process.
#[cfg(feature = "broken")]
pub fn put_back(fault: Option<Fault>) {
    NOW.store(fault.map_or(0, |fault| fault as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Whether this one is put back.
#[cfg(feature = "broken")]
pub fn is(fault: Fault) -> bool {
    NOW.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
        || NAMED.as_ref().is_some_and(|named| *named == format!("{fault:?}"))
}

/// Never, outside tests.
#[cfg(not(feature = "broken"))]
pub const fn is(_: Fault) -> bool {
    false
}
