"""Requests and replies: one module for each kind, and what they have in common."""
