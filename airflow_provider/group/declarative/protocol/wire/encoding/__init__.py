"""Kafka's primitive types, and structs of them: values <-> bytes."""
