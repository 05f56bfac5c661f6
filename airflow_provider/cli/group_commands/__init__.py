"""``cospark groups``, ``status`` and ``scale``."""
