"""Everything around the package that the demo needs: a real Airflow, its input data, a picture of the run."""
