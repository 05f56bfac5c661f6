"""The requests of a shard: from their queue to one transaction with all replies."""
