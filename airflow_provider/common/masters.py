"""Checks the Spark that people give for a worker, before anything is started."""

from __future__ import annotations

from typing import Final

from airflow_provider.spark_connect.server import ConnectServer, is_connect

_KINDS: Final = ("local", "spark://", "k8s://", "yarn")
"""The prefixes of Spark's master URLs. Spark itself refuses others only after it has started a JVM."""


def usable_master(master: str) -> str:
    """A master URL of Spark, or that of a Spark Connect server.

    :raises ValueError: for anything else; the message does not repeat what may be secret
    """
    if is_connect(master):
        return ConnectServer.parse(master).url
    if not master.startswith(_KINDS):
        raise ValueError(
            f"must be a Spark master, which begins with {', '.join(_KINDS)}, or a Spark Connect server: sc://host:port"
        )
    return master
