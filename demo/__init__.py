"""What the demo needs around the package itself: a real Airflow, its input, its picture of the run."""
