"""Memberships in declarative groups behind the port, and what they compute for their group."""
