"""Pure: what a worker knows of its tasks, those that it runs and those that it learns."""
