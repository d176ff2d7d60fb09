//! Delivers to NATS JetStream.
