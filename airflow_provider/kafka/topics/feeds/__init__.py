"""What is read of a group's topics, in views that any thread can read."""
