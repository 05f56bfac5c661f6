"""Asks the master of a standalone cluster (``spark://host:port[,host:port]``).

A master that is restarted without recovery does not know its earlier applications. Its workers end their executors, but
nobody tells the driver: its context stays alive, and waits for executors for ever.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext

_CONNECT_S: Final = 5.0
_SCHEME: Final = "spark://"


def addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports in a master URL; none if it is not that of a standalone cluster."""
    if not master.startswith(_SCHEME):
        return []
    found = []
    for address in master.removeprefix(_SCHEME).split(","):
        host, _, port = address.rpartition(":")
        if host and port.isdecimal():
            found.append((host.strip("[]"), int(port)))
    return found


def unreachable(master: str) -> str:
    """Why no master can be reached there; empty if one can, or if this can't be checked. Spark itself would try for a
    minute.
    """
    refusals = []
    for host, port in addresses(master):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_S).close()
        except OSError as refused:
            refusals.append(f"{host}:{port}: {refused}")
        else:
            return ""
    return "; ".join(refusals)


class MasterSays(Enum):
    """What the masters of an application say about it."""

    KNOWN = "known"
    """A master knows it, or there is no master that can be asked."""
    FORGOTTEN = "forgotten"
    """Masters answer, but none of them knows it."""
    NOTHING = "nothing"
    """No master answers. Applications keep their executors, but get no new ones."""


def ask_master(context: SparkContext) -> MasterSays:
    """Ask all masters of this application. This blocks until they have answered, or can't be reached."""
    asked = addresses(context.master or "")
    answers = [_applications(context, host, port) for host, port in asked]
    known = [ids for ids in answers if ids is not None]
    if not known:
        return MasterSays.NOTHING if asked else MasterSays.KNOWN
    here = any(context.applicationId in ids for ids in known)
    return MasterSays.KNOWN if here else MasterSays.FORGOTTEN


def _applications(context: SparkContext, host: str, port: int) -> Sequence[str] | None:
    """The ids of the master's applications, asked by Spark's own RPC; None if it does not answer, or is a standby."""
    from py4j.protocol import Py4JError

    jvm: Any = context._jvm  # noqa: SLF001
    with contextlib.suppress(Py4JError):
        request = _class(jvm, "deploy.DeployMessages$RequestMasterState$").getField("MODULE$").get(None)
        # By its field: reflection on its methods fails, because some use classes that PySpark does not contain.
        of_environment = _class(jvm, "SparkEnv").getDeclaredField("rpcEnv")
        of_environment.setAccessible(True)
        environment = of_environment.get(context._jsc.sc().env())  # noqa: SLF001
        master = environment.setupEndpointRef(jvm.org.apache.spark.rpc.RpcAddress(host, port), "Master")
        answer = jvm.scala.reflect.ClassTag.apply(_class(jvm, "deploy.DeployMessages$MasterStateResponse"))
        state = master.askSync(request, answer)
        if state.status().toString() == "ALIVE":
            return [application.id() for application in state.activeApps()]
    return None


def _class(jvm: Any, name: str) -> Any:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(f"org.apache.spark.{name}", True, loader)
