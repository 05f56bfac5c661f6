"""What a worker sees of its membership: the port behind which each group protocol stands.

A protocol is one :class:`Memberships`: it makes a membership for each process that holds it, and knows what another
process has saved of it. A worker asks nothing else, so it is the same in all protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.model import Epoch, MemberId, TaskId, Tasks, WorkerId
from airflow_provider.records import WorkerStatus

if TYPE_CHECKING:
    from airflow_provider.topics.group_topics import GroupTopics

KnowsGone = Callable[[WorkerStatus], bool]
"""Whether the worker that said that surely has ended, and runs nothing any more."""

Saved = Mapping[str, Any]
"""A membership as JSON, for another process. Only the protocol that has saved it knows what is in it."""


class MembershipSettings(Protocol):
    """What a worker has to know of its membership's settings; each protocol has more of its own. Times are in
    milliseconds.
    """

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
        """The coordinator removes a member that is silent for so long."""

    @property
    def ready_from(self) -> float:
        """From this progress on (above 0, at most 1) what is learned here may move here."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """So long the group waits for a member to stop what it has to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipView:
    """How a membership is now.

    :param epoch: the last one whose assignment it has applied; 0 before the first
    :param member_id: what the coordinator calls it
    :param owned: what this worker has: running, held back, or stopping
    :param stopping: the part of ``owned`` that was told to stop and has not been released yet
    :param learns: whether tasks are learned in this group before they move
    :param settled: in the group, and nothing is stopping or waits to start: it can be handed over as it is
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
    """How a membership is over."""

    LEFT = "left"
    """Out of the group, as its worker asked."""
    FENCED = "fenced"
    """Another process has taken the worker's name."""
    FAILED = "failed"
    """It cannot go on, and trying again does not mend that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A membership is over.

    :param error: what is wrong and what to do; None if it has left as it was asked to
    """

    how: HowEnded
    error: str | None = None


class MembershipListener(Protocol):
    """The worker of a membership. Called on the event loop; must not block or raise."""

    def start_tasks(self, tasks: Tasks, epoch: Epoch) -> None:
        """These are this worker's from ``epoch`` on."""

    def stop_tasks(self, tasks: Tasks, reason: StopReason) -> None:
        """Stop these, started or not, and say so by :meth:`Membership.tasks_stopped`."""

    def start_learning(self, tasks: Tasks) -> None:
        """Make these ready to run here, while another worker has them, and say how far each is by
        :meth:`Membership.learning_progressed`. One that moves here comes by :meth:`start_tasks`: what was made ready is
        for that run. If it is to stop before, it comes by :meth:`stop_tasks`.
        """

    def stop_learning(self, tasks: Tasks) -> None:
        """Let go of what was made ready for these. Nothing waits for that."""

    def may_leave(self) -> None:
        """It has asked to leave soon, and has nothing left."""

    def assigned(self, epoch: Epoch) -> None:
        """The membership is in that epoch; its view says what this worker has by now."""

    async def farewell(self) -> None:
        """The membership leaves when this returns: what the others have to know by then. Bounded; must not raise."""

    def ended(self, ended: Ended) -> None:
        """Nothing comes after this."""


class Membership(Protocol):
    """One membership, driven in this process. Everything on one event loop; nothing blocks."""

    @property
    def view(self) -> MembershipView: ...

    @property
    def lease_until_ms(self) -> int | None:
        """No other worker is given this one's tasks before then, by :func:`~airflow_provider.kafka.clock.now_ms`. None
        before the first lease, and when the membership is not driven here any more.
        """

    def begin(self, predecessor: Predecessor) -> None:
        """Join, or go on with what was saved. The group's topics have been read to their ends.

        :param predecessor: what is known of the process that had the worker's name before
        """

    def tasks_stopped(self, tasks: Tasks) -> None:
        """These do not run here any more, and are to run elsewhere: released, whether that was asked for or not."""

    def tasks_finished(self, tasks: Tasks) -> None:
        """These have come to their end, and the topics say so: released, and not to run again."""

    def learning_progressed(self, progress: Mapping[TaskId, float], failed: Tasks) -> None:
        """How far tasks are that it learns, from 0 to 1; what it does not learn any more is ignored.

        :param failed: those that could not be made ready here
        """

    def leave_soon(self, reason: str) -> None:
        """Have others learn and take what this worker has, and be given nothing new; then
        :meth:`MembershipListener.may_leave`. Only where :attr:`MembershipView.learns`.

        :param reason: for the coordinator's log
        """

    def leave(self, reason: str) -> None:
        """Have everything stopped, then leave the group for good.

        :param reason: for the coordinator's log
        """

    def fail(self, bug: BaseException) -> None:
        """End for a fault of this program, without leaving: the next process under this name goes on with the tasks."""

    async def hand_over(self) -> Saved:
        """Drive it here no more, without leaving; give what another process needs to go on with it."""

    async def aclose(self) -> None:
        """Drive it here no more; the coordinator hears nothing of it."""


class Memberships(Protocol):
    """Makes the memberships of one worker, in one group protocol."""

    def make(self, listener: MembershipListener, saved: Saved | None) -> Membership:
        """One that joins anew, or goes on as the same member.

        :param saved: by :meth:`Membership.hand_over` in another process; None to join anew
        :raises ValueError: if another protocol has saved it, or a release that this one can't read
        """

    def taken_over(self, saved: Saved) -> Saved:
        """The membership for a process that can't know whether the one before it holds it still: it joins under the
        same name as a new member, which fences the process before and moves no task.
        """


class GroupProtocol(Protocol):
    """A group protocol with what a worker has chosen of it."""

    def memberships(
        self, kafka: KafkaSettings, topics: GroupTopics, is_gone: KnowsGone | None
    ) -> AbstractAsyncContextManager[Memberships]:
        """What makes memberships over connections that are open as long as the block runs.

        :param topics: of the group, read to their ends
        :param is_gone: which others need not be waited for; None: from here nothing is seen of them
        """
