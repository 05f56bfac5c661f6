"""Which tasks a round moves, and how many at once."""
