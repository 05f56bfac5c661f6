"""Checks the Spark master that a worker is given, before anything is started."""

from __future__ import annotations

import re
from typing import Final

from airflow_provider.spark.connect.server import ConnectServer, is_connect

_STANDALONE: Final = "spark://"
_KINDS: Final = ("local", _STANDALONE, "k8s://", "yarn")
"""The prefixes of Spark's master URLs. Spark itself refuses others only after it has started a JVM."""
_A_MASTER: Final = f"a Spark master, which begins with {', '.join(_KINDS)}"
_ADDRESSES: Final = re.compile(r"[^,/]+:[0-9]+(,[^,/]+:[0-9]+)*")


def usable_master(master: str) -> str:
    """Check a master URL of Spark, or that of a Spark Connect server, and return it.

    :raises ValueError: for anything else; the message does not repeat what may be secret
    """
    if is_connect(master):
        return ConnectServer.parse(master).url
    if not master.startswith(_KINDS):
        raise ValueError(f"must be {_A_MASTER}, or a Spark Connect server: sc://host:port")
    return own_master(master)


def own_master(master: str) -> str:
    """Check a master URL of Spark, and return it.

    :raises ValueError: for anything else; the message does not repeat what may be secret
    """
    if not master.startswith(_KINDS):
        raise ValueError(f"must be {_A_MASTER}")
    if master.startswith(_STANDALONE) and not _ADDRESSES.fullmatch(master.removeprefix(_STANDALONE)):
        raise ValueError("the master of a standalone cluster must be spark://host:port, or spark://host:port,host:port")
    return master
