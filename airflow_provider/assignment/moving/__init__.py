"""Which tasks a round moves, how many at once, and why."""
