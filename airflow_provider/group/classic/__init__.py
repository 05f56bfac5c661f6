"""Kafka's classic protocol, with Kafka Connect's embedded one inside it (KIP-415). Pure."""
