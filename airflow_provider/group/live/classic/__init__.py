"""Memberships in the classic protocol behind the port: a member, its requests, and what it does as the leader."""
