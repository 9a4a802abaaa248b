"""Redis and RabbitMQ."""
