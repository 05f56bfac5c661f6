"""A task's code, from its entry point to its last event, and who is to blame for its errors."""
