//! Faults that this store once had or could have, for tests that must catch them. They are compiled with the feature `broken` only, and even
//! then nothing is broken until a test says so.

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Due retries go before everything fresh (finding 10).
    RetriesFirst = 1,
    /// A relay that has lost its lane still writes what came of its deliveries.
    Unfenced = 2,
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
