"""Airflow's masker, for texts that leave the task's process by other ways than its log."""

from __future__ import annotations

from airflow.sdk._shared.secrets_masker import redact


def masked(text: str) -> str:
    """``text`` with ``***`` for each secret that Airflow has met in this process: passwords and extras of the
    connections, and the variables, that were asked for.
    """
    return str(redact(text))
