"""The clusters that this process can ask about drivers, by the names that records have.

A record comes from a topic, and whoever may write there could name any address. So YARN is that of this process's own
configuration, and a master of Kubernetes is only asked if it is allowed here: it gets this process's credentials.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from airflow_provider.spark.submit.detached import Cluster
from airflow_provider.spark.submit.kubernetes import MASTER, kubernetes_here
from airflow_provider.spark.submit.yarn import Yarn, yarn_here

ClusterHere: TypeAlias = Callable[[str], Cluster]
"""Gives the cluster of a name. It may take long, as the command of a kubeconfig that gives credentials is run. The
message of an exception says why this process does not know it."""

_NAMESPACE: Final = re.compile(
    rf"(?P<master>{MASTER}.+)/namespaces/(?P<namespace>[a-z0-9](?:[a-z0-9-]{{0,61}}[a-z0-9])?)"
)
_RENEWED_S: Final = 600.0
"""How long Kubernetes is asked with the same credentials, which are renewed by themselves if they say when they end."""


class NoClusterError(Exception):
    """This process may not ask the cluster of that name, or does not know it."""


def cluster_here(name: str, masters: Collection[str] = ()) -> Cluster:
    """The cluster with this name (:attr:`~airflow_provider.spark.submit.detached.Cluster.name`).

    :param masters: those of Kubernetes that may be asked because a record names them
    :raises Exception: if it is not known here; the message says why
    """
    if name == Yarn.name:
        return yarn_here(os.environ)
    found = _NAMESPACE.fullmatch(name)
    if found is None:
        raise NoClusterError(f"a cluster of the name {name!r} is not known to this release")
    if found["master"] not in masters:
        raise NoClusterError(
            f"{found['master']} is not asked, because only a record of the group names it: allow this master"
            " (allowed_applications of the worker; --allow-master of cospark jobs orphans)"
        )
    return _kubernetes(found["master"], found["namespace"], os.getpid(), time.monotonic() // _RENEWED_S)


@functools.lru_cache(maxsize=16)
def _kubernetes(master: str, namespace: str, _pid: int, _period: float) -> Cluster:
    """One for all workers of a triggerer: each would run the kubeconfig's command, and have a connection.

    :param _pid: of this process: a forked one must not use the same connections
    """
    return kubernetes_here(master, {"spark.kubernetes.namespace": namespace}, os.environ)
