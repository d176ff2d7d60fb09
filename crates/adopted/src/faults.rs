//! Faults that this store once had, for tests that must catch them. They are compiled with the feature `broken` only, and even
//! then nothing is broken until a test says so.

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A heartbeat holds until it is over, however far ahead that lies since the clock was set back (finding 8).
    AliveWhateverTheClock = 1,
    /// A claim that was given back untried counts as one that ran out (finding 9).
    UntriedClaimsCount = 2,
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
