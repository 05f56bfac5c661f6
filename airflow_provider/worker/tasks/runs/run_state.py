"""Where a task is in its worker."""

from __future__ import annotations

from enum import Enum
from typing import Final


class RunState(str, Enum):
    """Where a task is in this worker."""

    __hash__ = str.__hash__  # that of an Enum is Python code, and each step of a task asks for it a hundred times

    WAITING = "waiting"
    """Waits for a slot, for its next attempt, for a checkpoint that another task still has, or for its trial."""
    PAUSED = "paused"
    """Its job is paused. The task stays here."""
    TAKING_OVER = "taking over"
    """Its earlier query may still be running: it is searched for, to adopt it or to end it."""
    STARTED = "started"
    """Handed to the runner; its last event is still to come."""
    STOPPING = "stopping"
    """Told to stop, and to be released then."""
    LEAVING = "leaving"
    """Detached, and its worker leaves: it is not known yet whether another worker stays, which could adopt it."""
    TIMED_OUT = "timed out"
    """Told to stop, because it took longer than its job allows. That has been counted as a failure."""
    RESTARTING = "restarting"
    """Told to stop, because what it is to run has changed."""
    PUBLISHING = "publishing"
    """A planner whose plan is being written."""
    CLOSING = "closing"
    """Has ended; its last record is being written."""
    FAILED = "failed"
    """Has failed for good, and its record says so. It stays here until somebody has it tried again."""

    @property
    def rests(self) -> bool:
        """Whether the task stays as it is until people want something else."""
        return self in _RESTS

    @property
    def runs(self) -> bool:
        """Whether a last event of the attempt is still to come."""
        return self in _WITH_RUNNER

    @property
    def told_to_stop(self) -> bool:
        """Whether it runs, but no longer than it takes to stop it."""
        return self in _TOLD_TO_STOP


_RESTS: Final = frozenset({RunState.PAUSED, RunState.FAILED})
_TOLD_TO_STOP: Final = frozenset({RunState.STOPPING, RunState.TIMED_OUT, RunState.RESTARTING})
_WITH_RUNNER: Final = frozenset({RunState.STARTED, RunState.LEAVING, *_TOLD_TO_STOP})
