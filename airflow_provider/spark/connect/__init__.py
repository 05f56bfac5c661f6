"""This process as a client of Spark Connect servers: it knows Spark, and nothing of tasks. No Java is needed for it."""
