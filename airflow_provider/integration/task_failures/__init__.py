"""How an Airflow task fails: after patience or at once, and what it leaves in XCom."""
