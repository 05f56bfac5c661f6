"""Commands that need no broker: they read lines from a file or a pipe."""
