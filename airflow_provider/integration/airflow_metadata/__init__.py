"""What is stored in Airflow's metadata database: texts, asset events, lines of the audit log."""
