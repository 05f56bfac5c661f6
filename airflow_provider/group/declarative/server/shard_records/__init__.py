"""A shard's data in Kafka: its records, its transactions, and how far its requests are handled."""
