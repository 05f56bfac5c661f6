"""``cospark jobs``."""
