"""Keeps the tasks of one Spark application apart: whose threads, sessions and cached data are whose."""
