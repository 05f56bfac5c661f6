"""What a worker and its membership, in whatever group protocol, say to each other of the tasks that it holds."""

from __future__ import annotations

from enum import Enum


class StopReason(str, Enum):
    """Why a membership tells its worker to stop tasks."""

    REVOKED = "revoked"
    """The leader gives them to somebody else."""
    LEARNED = "learned"
    """Another worker has made itself ready for them, and may have them."""
    EAGER = "eager"
    """The eager protocol: who joins has stopped everything."""
    LEASE_OVER = "lease over"
    """No heartbeat was answered for so long that the group may give them to others."""
    EXPELLED = "expelled"
    """The coordinator does not know this member any more."""
    FENCED = "fenced"
    """Another process joined under this worker's name."""
    LEAVING = "leaving"
    """This worker leaves the group for good."""
    FAILED = "failed"
    """The membership cannot go on."""

    @property
    def ends_lease(self) -> bool:
        """Whether it is about all that the worker has: what runs from then on is held under another lease."""
        return self not in (StopReason.REVOKED, StopReason.LEARNED, StopReason.EAGER)


class Predecessor(str, Enum):
    """What is known, when a worker starts, of the process that had its name before."""

    GONE = "gone"
    """There was none, or it has ended: nothing of it can still run."""
    UNKNOWN = "unknown"
    """It may still run tasks until its lease is over."""
