"""The handle by which a driver that goes on without the process that has submitted it is watched.

It is written to the status topic. Whoever watches asks a cluster of its own configuration, or a master that it allows,
so a record can't send anybody elsewhere. And it has no id of the cluster, but the tag that goes with each submission,
which begins with a digest of whose work it is: a record can't have anything killed but what was submitted for its own
task.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_PREFIX: Final = "cospark-"
_LATEST_MS: Final = 2**53
"""A duration reckoned from a larger number need not fit into a float."""
_TAG: Final = re.compile(rf"{_PREFIX}[0-9a-f]{{40}}")


def tag_of(owner: str, work: str) -> str:
    """The same for the same work, whoever submits it. YARN has tags of lower-case letters, and Kubernetes labels of 63
    letters.

    :param owner: whose work it is
    :param work: all that tells it from other work of the same owner
    """
    return f"{_PREFIX}{_digest(owner)}{_digest(work)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverHandle:
    """The driver of a task: a job returns this in place of its result, when nothing but the driver is left to wait for.

    :param cluster: the name of its cluster (:mod:`~airflow_provider.spark.submit.clusters`)
    :param tag: of all submissions of the same work
    :param since_ms: when the work began (wall clock, milliseconds since 1970)
    :param result: of the task if the driver succeeds, without the ``seconds`` that it took
    """

    cluster: str
    tag: str
    since_ms: int = field(compare=False)
    result: Mapping[str, Any] = field(compare=False, repr=False)

    is_known = True
    """As it was submitted before there was a handle, it need not be searched for."""

    @property
    def server(self) -> str:
        """Where it runs."""
        return self.cluster

    @property
    def place(self) -> tuple[str, str]:
        return self.cluster, self.tag

    def result_at(self, now_ms: int) -> dict[str, Any]:
        """The result of the task whose driver has succeeded by now (wall clock, milliseconds since 1970)."""
        return {**self.result, "seconds": round(max(0, now_ms - self.since_ms) / 1000, 3)}

    def check_owner(self, owner: str) -> None:
        """:raises ValueError: if the driver was submitted for somebody else"""
        if not self.tag.startswith(f"{_PREFIX}{_digest(owner)}"):
            raise ValueError("not a handle of this task's driver: its tag is that of other work")

    def to_json(self) -> dict[str, Any]:
        return {"cluster": self.cluster, "tag": self.tag, "since_ms": self.since_ms, "result": dict(self.result)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DriverHandle:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else
        """
        match data:
            case {"cluster": str(cluster), "tag": str(tag), "since_ms": int(since_ms), "result": Mapping() as result}:
                if _TAG.fullmatch(tag) and 0 <= since_ms <= _LATEST_MS:
                    return cls(cluster=cluster, tag=tag, since_ms=since_ms, result=result)
        raise ValueError("not a handle of a driver")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
