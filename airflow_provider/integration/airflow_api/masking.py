"""Masks secrets, by Airflow's masker, in texts that leave the task's process by other ways than its log."""

from __future__ import annotations

from airflow.sdk._shared.secrets_masker import redact


def masked(text: str) -> str:
    """``text`` with ``***`` for each secret that Airflow has seen in this process: passwords and extras of connections,
    and variables, that were read.
    """
    return str(redact(text))
