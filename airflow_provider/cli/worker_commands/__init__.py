"""``cospark worker``, ``workers``, ``loggers`` and ``coordinator``."""
