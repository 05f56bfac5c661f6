"""OpenLineage events of Spark tasks."""
