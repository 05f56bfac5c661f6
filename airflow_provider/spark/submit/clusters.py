"""The clusters that this process can ask about drivers, by kind: each is the one of its own configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from airflow_provider.spark.submit.detached import Cluster
from airflow_provider.spark.submit.yarn import yarn_here

ClusterHere: TypeAlias = Callable[[str], Cluster]
"""Gives the cluster of a kind. The message of an exception says why this process does not know it."""

_CLUSTERS: Final[Mapping[str, Callable[[Mapping[str, str]], Cluster]]] = {"yarn": yarn_here}


KINDS: Final = frozenset(_CLUSTERS)
"""The masters whose drivers others can watch: each process finds the cluster by itself."""


class NoClusterError(Exception):
    """This release knows no cluster of that kind."""


def cluster_here(kind: str) -> Cluster:
    """The cluster of this kind, by the environment of this process.

    :raises Exception: if it is not known here; the message says why
    """
    if kind not in _CLUSTERS:
        raise NoClusterError(f"a cluster of the kind {kind!r} is not known to this release")
    return _CLUSTERS[kind](os.environ)
