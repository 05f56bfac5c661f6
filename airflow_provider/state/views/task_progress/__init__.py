"""What is configured, how far it is, where each task is, and what is to be tried or planned again. Pure."""
