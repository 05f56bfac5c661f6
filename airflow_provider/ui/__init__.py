"""The page in Airflow's UI: an application of its own, which Airflow shows in its frame."""
