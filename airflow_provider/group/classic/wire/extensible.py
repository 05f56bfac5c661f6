"""The values of v3, ``extensible``, and v4, ``compressed``: what a worker and its leader send each other where tasks
can be learned.

An assignment of v1 and v2 is a difference; one of v3 and v4 is complete. So its bytes alone tell a worker what it owns,
even one that comes back to a stable group and gets the assignment of the last round.

Owning and learning are kept apart: what a worker learns belongs to another worker, or to nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider.values.model import AssignmentError, ConfigOffset, Epoch, SubProtocol, TaskId
from airflow_provider.values.packed_tasks import NOTHING, PackedTasks

VERSION: Final = SubProtocol.EXTENSIBLE.version


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensibleState:
    """A worker's metadata in a JoinGroup request. The fields are explained in ``extensible.fbs``.

    :param learning: tasks that it makes ready while another worker owns them
    :param progress: of each of those in their order, from 0 to 1; empty: 0 for each
    :param ready: those of ``learning`` that may move to it now
    :param leaving: why it leaves soon; None: it stays
    :param slots: how many it has; None: it has not said
    :param weight: how much work it takes, compared with others; None: as much as any
    :param epoch: of the last assignment that it has applied; None: it has applied none
    :param failed: those of ``learning`` that it could not make ready, and has stopped learning
    """

    version: int = VERSION
    url: str = ""
    config_offset: ConfigOffset = ConfigOffset(-1)
    owned: PackedTasks = NOTHING
    learning: PackedTasks = NOTHING
    progress: tuple[float, ...] = ()
    ready: PackedTasks = NOTHING
    leaving: str | None = None
    slots: int | None = None
    weight: float | None = None
    epoch: Epoch | None = None
    failed: PackedTasks = NOTHING

    def how_far(self) -> dict[TaskId, float]:
        """The tasks that it learns, each with its progress from 0 to 1."""
        progress = self.progress or (0.0,) * len(self.learning)
        return dict(zip(self.learning.in_order(), progress, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensibleAssignment:
    """What a leader sends one worker in SyncGroup. The fields are explained in ``extensible.fbs``.

    :param target: all that the worker is to own; None: the leader could not assign, so nothing changes
    :param revoked: tasks of its own that it has to stop for that
    :param delay_ms: join again after so many milliseconds; 0: no need to
    :param learning: all that the worker is to learn
    :param learned: tasks of its own that others learn
    :param another_round: others have to join again immediately
    :param shutdown: it may leave
    :param epoch: the number of this assignment; None: the leader has not said
    """

    version: int = VERSION
    error: int = AssignmentError.NONE
    leader: str = ""
    leader_url: str = ""
    config_offset: ConfigOffset = ConfigOffset(-1)
    target: PackedTasks | None = None
    revoked: PackedTasks = NOTHING
    delay_ms: int = 0
    learning: PackedTasks = NOTHING
    learned: PackedTasks = NOTHING
    another_round: bool = False
    shutdown: bool = False
    epoch: Epoch | None = None


def learning(how_far: Mapping[TaskId, float]) -> tuple[PackedTasks, tuple[float, ...]]:
    """Make the fields ``learning`` and ``progress`` from the progress of each task.

    :raises LocalProtocolError: for a task that the wire can't carry
    """
    tasks = PackedTasks.of(how_far)
    return tasks, tuple(how_far[task] for task in tasks.in_order())
