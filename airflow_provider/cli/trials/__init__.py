"""Commands that start a Kafka broker or a Spark Connect server on this machine, to try things out."""
