//! Delivers to RabbitMQ exchanges with publisher confirms.
