"""The port between a worker and its membership, which each group protocol implements.

A protocol is one :class:`Memberships`: it makes a membership for each process that holds it, and can read what another
process has saved. A worker needs nothing else, so it is the same in all protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.state.records import WorkerStatus
from airflow_provider.values.model import Epoch, MemberId, TaskId, Tasks, WorkerId

if TYPE_CHECKING:
    from airflow_provider.kafka.topics.topic_writer import GroupTopics

KnowsGone = Callable[[WorkerStatus], bool]
"""Whether the worker that wrote this record has certainly ended, and runs nothing any more."""

Saved = Mapping[str, Any]
"""A membership as JSON, for another process. Only the protocol that has saved it can read it."""


class MembershipSettings(Protocol):
    """The settings of a membership that its worker needs; each protocol has more. Times are in milliseconds."""

    @property
    def group_id(self) -> str: ...

    @property
    def worker(self) -> WorkerId:
        """The group instance id, by which the worker is known everywhere."""

    @property
    def url(self) -> str:
        """Where people can look at this worker."""

    @property
    def session_timeout_ms(self) -> int:
        """After this time without a heartbeat the coordinator removes the member."""

    @property
    def ready_from(self) -> float:
        """From this progress on (above 0, at most 1) a task that is learned here may move here."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the group waits for a member to stop revoked tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipView:
    """The present state of a membership.

    :param epoch: of the last assignment that it has applied; 0 before the first
    :param member_id: the coordinator's name for it
    :param owned: what this worker has: running, held, or stopping
    :param stopping: the part of ``owned`` that was told to stop and has not been released yet
    :param learns: whether tasks are learned in this group before they move
    :param settled: in the group, and nothing is stopping or waits to start, so it can be handed over as it is
    :param leaving: it stops everything and leaves, whether or not its worker has asked for it
    """

    epoch: Epoch
    member_id: MemberId
    owned: Tasks
    stopping: Tasks
    settled: bool
    leaving: bool
    learns: bool = False


class HowEnded(str, Enum):
    """How a membership has ended."""

    LEFT = "left"
    """Out of the group, as its worker asked."""
    FENCED = "fenced"
    """Another process has taken the worker's name."""
    FAILED = "failed"
    """It can't continue, and retrying does not mend that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a membership.

    :param error: what is wrong and what to do; None if it has left as requested
    """

    how: HowEnded
    error: str | None = None


class MembershipListener(Protocol):
    """The worker, as its membership calls it. Calls come on the event loop and must not block or raise."""

    def start_tasks(self, tasks: Tasks, epoch: Epoch) -> None:
        """Run these tasks; they are this worker's from ``epoch`` on."""

    def stop_tasks(self, tasks: Tasks, reason: StopReason) -> None:
        """Stop these tasks, started or not, and report each by :meth:`Membership.tasks_stopped`."""

    def start_learning(self, tasks: Tasks) -> None:
        """Warm up these tasks, while another worker has them, and report the progress by
        :meth:`Membership.learning_progressed`.

        If one moves here, :meth:`start_tasks` is called for it, and what was warmed up is for that run; if it has to
        stop before, :meth:`stop_tasks` is.
        """

    def stop_learning(self, tasks: Tasks) -> None:
        """Discard what was warmed up for these tasks. Nothing waits for that."""

    def may_leave(self) -> None:
        """The worker has asked to leave soon, and has nothing left."""

    def assigned(self, epoch: Epoch) -> None:
        """The membership has reached this epoch; its view says what this worker has now."""

    async def farewell(self) -> None:
        """Write what others have to know before the membership leaves, which it does when this returns.

        It must take limited time, and must not raise.
        """

    def ended(self, ended: Ended) -> None:
        """The membership has ended; no call follows."""


class Membership(Protocol):
    """One membership, driven in this process, on one event loop. No method blocks."""

    @property
    def view(self) -> MembershipView: ...

    @property
    def lease_until_ms(self) -> int | None:
        """No other worker gets this one's tasks before this time, by :func:`~airflow_provider.kafka.clock.now_ms`.

        None before the first lease, and when the membership is not driven here any more.
        """

    def begin(self, predecessor: Predecessor) -> None:
        """Join, or continue a saved membership. The group's topics have been read to their ends.

        :param predecessor: what is known of the process that had the worker's name before
        """

    def tasks_stopped(self, tasks: Tasks) -> None:
        """Release tasks that have stopped here, whether asked to or not, and have to run elsewhere."""

    def tasks_finished(self, tasks: Tasks) -> None:
        """Release tasks that have come to their end, which is in the topics, and must not run again."""

    def learning_progressed(self, progress: Mapping[TaskId, float], failed: Tasks) -> None:
        """Report the progress of tasks that are learned here, from 0 to 1. Tasks not learned any more are ignored.

        :param failed: those that could not be made ready here
        """

    def leave_soon(self, reason: str) -> None:
        """Get nothing new, and let others learn and take over this worker's tasks; then
        :meth:`MembershipListener.may_leave` is called. Only if :attr:`MembershipView.learns`.

        :param reason: for the coordinator's log
        """

    def leave(self, reason: str) -> None:
        """Stop everything, then leave the group for good.

        :param reason: for the coordinator's log
        """

    def fail(self, bug: BaseException) -> None:
        """End after a fault of this program, without leaving: the next process under this name gets the tasks."""

    async def hand_over(self) -> Saved:
        """Stop driving it here, without leaving; return what another process needs to continue it."""

    async def aclose(self) -> None:
        """Stop driving it here, without leaving."""


class Memberships(Protocol):
    """Makes the memberships of one worker, in one group protocol."""

    def make(self, listener: MembershipListener, saved: Saved | None) -> Membership:
        """Make a membership that joins, or continues as the same member.

        :param saved: by :meth:`Membership.hand_over` in another process; None: to join
        :raises ValueError: if another protocol has saved it, or a release that this one can't read
        """

    def taken_over(self, saved: Saved) -> Saved:
        """The membership for a process that can't know whether the one before still holds it.

        It joins under the same name as a new member, which fences the process before and moves no task.
        """


class GroupProtocol(Protocol):
    """A group protocol, as a worker has configured it."""

    def memberships(
        self, kafka: KafkaSettings, topics: GroupTopics, is_gone: KnowsGone | None
    ) -> AbstractAsyncContextManager[Memberships]:
        """Open what makes memberships; its connections stay open until the block ends.

        :param topics: the group's, read to their ends
        :param is_gone: which workers have ended, so that nobody has to wait for them; None: this process can't tell
        """
