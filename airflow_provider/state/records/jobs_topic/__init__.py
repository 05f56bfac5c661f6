"""What people have decided: the records of the jobs topic, and what a job's definition may say."""
