"""How a worker's run in a process ends, and what of it goes on in another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from airflow_provider.assignors.model import Absence, LeaveReason
from airflow_provider.protocol.model import NO_TASKS, Epoch, Tasks

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
    """Nobody in the group had anything to run for as long as the worker may wait; it has left. ``error`` says why."""
    STOOD_BACK = "stood back"
    """No task can be started here, though perhaps elsewhere (``error`` says why); the worker has left for now."""
    HANDED_OVER = "handed over"
    """The membership goes on in another process, with ``saved``."""
    FENCED = "fenced"
    """Another process has taken the worker's name."""
    FAILED = "failed"
    """The coordinator refused the membership, the group's topics are gone, a task did not stop, or a fault of this
    program: ``error`` says which.
    """


WORK_IS_OVER: Final = (Ending.DRAINED, Ending.LEFT)
"""The worker has done what it was to do, or need not do it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a worker's run in this process ended.

    :param epoch: the last one that it applied
    :param error: for ``fenced``, ``failed``, ``idle`` and ``stood back``
    :param saved: for ``handed over``: what :class:`~airflow_provider.worker.worker.Worker` takes as ``saved`` in the
        other process
    :param came: for ``handed over``: tasks of it that are to run by now, and were not when that was decided: this
        process has taken a while to let go of its Spark
    :param still_running: tasks that were told to stop and have not: they end with this process, so that no other
        worker may begin in it
    """

    ending: Ending
    epoch: Epoch
    error: str | None = None
    saved: Mapping[str, Any] | None = None
    came: Tasks = NO_TASKS
    still_running: Tasks = NO_TASKS
