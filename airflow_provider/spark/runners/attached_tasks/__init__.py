"""Runs attached tasks in threads of this process, and warms tasks up, whatever their Spark is."""
