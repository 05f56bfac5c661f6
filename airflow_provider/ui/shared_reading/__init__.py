"""What all viewers of a group share: its reading, its computed tasks, its answers."""
