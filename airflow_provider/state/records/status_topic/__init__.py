"""How tasks and workers are: the records of the status topic, and their parts."""
