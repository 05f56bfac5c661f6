"""Finds out which user acts, outside of Airflow."""

from __future__ import annotations

import getpass
import socket


def user_at_host() -> str:
    """The user and the host according to the operating system. It is shown to people, and proves nothing."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run as a user that has no name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
