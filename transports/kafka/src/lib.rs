//! Delivers to Apache Kafka and Redpanda.
