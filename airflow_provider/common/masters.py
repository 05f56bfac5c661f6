"""What people give as the Spark of a worker, checked before anything is started with it."""

from __future__ import annotations

import re
from typing import Final

from airflow_provider.spark_connect.server import ConnectServer, is_connect

_STANDALONE: Final = "spark://"
_KINDS: Final = ("local", _STANDALONE, "k8s://", "yarn")
"""How the masters begin that Spark knows. It finds out late: a JVM has started by then."""
_A_MASTER: Final = f"a master of Spark, which begins with {', '.join(_KINDS)}"
_ADDRESSES: Final = re.compile(r"[^,/]+:[0-9]+(,[^,/]+:[0-9]+)*")


def usable_master(master: str) -> str:
    """A master URL of Spark, or that of a Spark Connect server.

    :raises ValueError: for anything else, without what may be secret in it
    """
    if is_connect(master):
        return ConnectServer.parse(master).url
    if not master.startswith(_KINDS):
        raise ValueError(f"neither {_A_MASTER}, nor a Spark Connect server: sc://host:port")
    return own_master(master)


def own_master(master: str) -> str:
    """A master URL of Spark.

    :raises ValueError: for anything else, without what may be secret in it
    """
    if not master.startswith(_KINDS):
        raise ValueError(f"not {_A_MASTER}")
    if master.startswith(_STANDALONE) and not _ADDRESSES.fullmatch(master.removeprefix(_STANDALONE)):
        raise ValueError("the master of a standalone cluster is spark://host:port, or spark://host:port,host:port")
    return master
