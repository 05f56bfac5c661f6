"""What people give as the Spark of a worker, checked before anything is started with it."""

from __future__ import annotations

from typing import Final

from airflow_provider.spark_connect.server import ConnectServer, is_connect

_KINDS: Final = ("local", "spark://", "k8s://", "yarn")
"""How the masters begin that Spark knows. It finds out late: a JVM has started by then."""


def usable_master(master: str) -> str:
    """A master URL of Spark, or that of a Spark Connect server.

    :raises ValueError: for anything else, without what may be secret in it
    """
    if is_connect(master):
        return ConnectServer.parse(master).url
    if not master.startswith(_KINDS):
        raise ValueError(
            f"neither a master of Spark, which begins with {', '.join(_KINDS)}, nor a Spark Connect server:"
            " sc://host:port"
        )
    return master
