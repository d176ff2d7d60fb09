//! Delivers to Redis streams.
