"""How a worker joins its group, what its membership hands over, and who else is in the group."""
