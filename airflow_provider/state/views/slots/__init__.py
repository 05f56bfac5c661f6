"""Which tasks have slots, what they cost, and who leaves when there are to be fewer. Pure."""
