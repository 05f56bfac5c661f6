"""How a worker's run in a process ends, and what is handed over to another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.values.model import NO_TASKS, Epoch, Tasks

STOPPED: Final = Absence(left=LeaveReason.STOPPED)
DRAINED: Final = Absence(left=LeaveReason.DRAINED)
KILLED: Final = Absence(left=LeaveReason.KILLED)


class Ending(str, Enum):
    """How a worker's run in this process ended."""

    DRAINED = "drained"
    """The group has done its work; the worker has left."""
    LEFT = "left"
    """The worker was asked to leave, and has."""
    IDLE = "idle"
    """No worker of the group had anything to run for the idle timeout; the worker has left. ``error`` says why."""
    STOOD_BACK = "stood back"
    """No task can be started here (``error`` says why); the worker has left for now."""
    BLAMED = "blamed"
    """Tasks fail here that go well elsewhere (``error`` says which); the worker has left for now."""
    HANDED_OVER = "handed over"
    """The membership continues in another process, with ``saved``."""
    FENCED = "fenced"
    """Another process has taken the worker's name."""
    FAILED = "failed"
    """The coordinator refused the membership, the group's topics are gone, a task did not stop, or a fault of this
    program: ``error`` says which.
    """

    @property
    def stands_back(self) -> bool:
        """Whether the worker has left only for now, and comes back by itself."""
        return self in (Ending.STOOD_BACK, Ending.BLAMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a worker's run in this process ended.

    :param epoch: the last one that it applied
    :param error: for ``fenced``, ``failed``, ``idle``, ``stood back`` and ``blamed``
    :param saved: for ``handed over``: what :class:`~airflow_provider.worker.worker.Worker` takes as ``saved`` in the
        other process
    :param came: for ``handed over``: tasks that have become runnable since the hand-over was decided: it takes a while
        to release Spark
    :param still_running: tasks that were told to stop and have not: they end with this process, so no other worker may
        start in it
    """

    ending: Ending
    epoch: Epoch
    error: str | None = None
    saved: Mapping[str, Any] | None = None
    came: Tasks = NO_TASKS
    still_running: Tasks = NO_TASKS
