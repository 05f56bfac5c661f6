"""Asks the coordinators of declarative groups, for members and for people."""
