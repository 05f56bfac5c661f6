"""Who acts, where no Airflow task does."""

from __future__ import annotations

import getpass
import socket


def user_at_host() -> str:
    """For people: what the system says, and no proof of anything."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container may run as a user that has no name
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
