"""Serves shards of declarative groups: a Kafka application around the coordinator's state machine."""
