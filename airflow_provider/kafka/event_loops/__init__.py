"""Event loops and threads: loops of their own, work outside of a loop, changes told to loops."""
