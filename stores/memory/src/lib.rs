//! The store in memory: the reference member of the store suite.
