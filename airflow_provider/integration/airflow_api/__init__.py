"""What is asked of Airflow: names that it has moved, teams, task instances, secrets to mask."""
