"""A group as ``cospark groups describe`` and the page describe it, and what is wrong with it. Pure."""
