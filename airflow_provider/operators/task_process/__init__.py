"""A worker in the process of its Airflow task: its run, its event loop, and what Airflow does after it."""
