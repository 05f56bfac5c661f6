"""Runs ``spark-submit`` in a process that does not outlive whoever owns it. It knows Spark, and nothing of tasks."""
