"""A worker as JSON: what one process hands over to the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider.group.membership import Saved
from airflow_provider.values.saved import SAVED_VERSION, check_saved, reading_saved


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """A worker that runs nothing, between two processes.

    :param membership: in the format of its group protocol
    :param began_at: how far the jobs topic had been read when the worker began; None: unknown
    :param process: the process that has handed it over
    :param idle_since_ms: since when no worker of the group has had anything to run (wall clock, milliseconds since
        1970); None: there is something to run
    :param asked_since_ms: when it has read a request to leave (wall clock, milliseconds since 1970); None: there is no
        request
    """

    membership: Saved
    began_at: int | None = None
    process: str = ""
    idle_since_ms: int | None = None
    asked_since_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "v": SAVED_VERSION,
            "member": self.membership,
            "began_at": self.began_at,
            "process": self.process,
            "idle_since_ms": self.idle_since_ms,
            "asked_since_ms": self.asked_since_ms,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> HandedOver:
        """The inverse of :meth:`to_json`.

        :raises ValueError: if it is of a newer release, or not a saved worker
        """
        check_saved(data, "worker")
        if not isinstance(data.get("member"), Mapping):
            raise ValueError("not a saved worker: it has no membership. Clear the task: its worker joins again")
        began_at, since, asked = (data.get(name) for name in ("began_at", "idle_since_ms", "asked_since_ms"))
        with reading_saved("worker"):
            return cls(
                membership=data["member"],
                began_at=None if began_at is None else int(began_at),
                process=str(data.get("process", "")),
                idle_since_ms=None if since is None else int(since),
                asked_since_ms=None if asked is None else int(asked),
            )
