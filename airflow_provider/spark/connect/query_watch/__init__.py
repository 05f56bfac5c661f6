"""Watches streaming queries on a server: polls them, reports what happens, and notices that the server is silent."""
