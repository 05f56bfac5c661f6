"""What workers and coordinators send to Airflow's stats."""
