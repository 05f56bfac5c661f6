"""Pure: what a worker knows about its tasks, both those that it runs and those that it learns."""
