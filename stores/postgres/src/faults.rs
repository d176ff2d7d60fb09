//! Faults that this store once had, for tests that must catch them. They are compiled with the feature `broken` only, and even
//! then nothing is broken until a test says so.

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A take asks only the table which keys are blocked, not what it has parked itself (finding 0).
    ParkedIsForgotten = 1,
    /// A reader knows segments by their place in the ring (finding 1).
    SegmentsByPlace = 2,
    /// A transaction is taken to have no number up to the last one drawn before the read that first sees it (finding 5).
    DrawnTooLate = 3,
    /// Due retries go before everything fresh (finding 10).
    RetriesFirst = 4,
    /// A reader that begins anew takes what it reads next for passed (H-113).
    ReadCountsAsPassed = 5,
}

#[cfg(feature = "broken")]
static NOW: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Puts a fault back, or none, in every store of this process.
#[cfg(feature = "broken")]
pub fn put_back(fault: Option<Fault>) {
    NOW.store(fault.map_or(0, |fault| fault as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Whether this one is put back.
#[cfg(feature = "broken")]
pub(crate) fn is(fault: Fault) -> bool {
    NOW.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// Never, outside tests.
#[cfg(not(feature = "broken"))]
pub(crate) const fn is(_: Fault) -> bool {
    false
}
