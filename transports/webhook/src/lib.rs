//! Delivers to URLs with signed requests.
