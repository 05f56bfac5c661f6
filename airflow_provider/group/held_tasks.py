"""What a worker and its membership, in any group protocol, tell each other about the tasks that the worker holds."""

from __future__ import annotations

from enum import Enum


class StopReason(str, Enum):
    """Why a membership tells its worker to stop tasks."""

    REVOKED = "revoked"
    """The leader gives them to another worker."""
    LEARNED = "learned"
    """Another worker has learned them, and may have them."""
    EAGER = "eager"
    """The eager protocol: a member stops everything before it joins."""
    LEASE_OVER = "lease over"
    """No heartbeat was answered for so long that the group may give them to others."""
    EXPELLED = "expelled"
    """The coordinator does not know this member any more."""
    FENCED = "fenced"
    """Another process joined under this worker's name."""
    LEAVING = "leaving"
    """This worker leaves the group for good."""
    FAILED = "failed"
    """The membership can't continue."""

    @property
    def ends_lease(self) -> bool:
        """Whether all tasks of the worker have to stop, so that what it starts later is held under another lease."""
        return self not in (StopReason.REVOKED, StopReason.LEARNED, StopReason.EAGER)


class Predecessor(str, Enum):
    """What a worker knows at its start about the process that had its name before."""

    GONE = "gone"
    """There was none, or it has ended: no task of it can still run."""
    UNKNOWN = "unknown"
    """It may still run tasks until its lease has ended."""
