"""Drives one membership: carries out the member machine's commands and feeds it what comes of them.

Everything runs on one event loop. Nothing is decided here; see :mod:`airflow_provider.membership.member`. Only what
the machine can't know ends a membership from here: a fault of this program, and topics that are gone.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from airflow_provider.assignors.policy import Policy
from airflow_provider.group.asking import Asking, Question
from airflow_provider.group.gone import GoneMembers
from airflow_provider.group.leader_records import LeaderRecords
from airflow_provider.group.leader_watch import LeaderWatch
from airflow_provider.group.leading import assign, last_round
from airflow_provider.group.membership import Ended, HowEnded, KnowsGone, MembershipListener, MembershipView, Saved
from airflow_provider.group.ready_learners import ReadyLearners
from airflow_provider.group.recent_events import RecentEvents
from airflow_provider.group.timers import Timer, call_at
from airflow_provider.group.topics_watch import TopicsWatch
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.transport import GroupTransport
from airflow_provider.kafka.wire.messages import NodeId
from airflow_provider.ledger.topic_view import About
from airflow_provider.membership.events import (
    ArmTimer,
    AssignmentComputed,
    Command,
    ConfigAdvanced,
    Event,
    Fail,
    FindCoordinator,
    LearnersReady,
    LearningProgressed,
    LeaveRequested,
    LeaveSoonRequested,
    MayLeave,
    PerformAssignment,
    PublishAssignment,
    PublishGroup,
    RebalanceWanted,
    RecordRead,
    Request,
    Resumed,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Started,
    StartLearning,
    StartTasks,
    StopLearning,
    StopTasks,
    TasksFinished,
    TasksStopped,
    TimerFired,
    Warn,
)
from airflow_provider.membership.member import handle
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.membership.saved import save
from airflow_provider.membership.state import MemberState, Phase
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.model import SubProtocol, TaskId, Tasks, WorkerId
from airflow_provider.protocol.saved import CLASSIC
from airflow_provider.topics.errors import NoTopicError, TopicError, TopicRenewedError
from airflow_provider.topics.group_topics import GroupTopics

log = logging.getLogger(__name__)

_WRITE_WITHIN_S: Final = 2.0

_TOGETHER_MS: Final = 10
_MOST_TOGETHER_MS: Final = 50
_PART_OF_WAIT: Final = 50
"""Timers are due together, every so many milliseconds, more where the wait is long: thousands of memberships then share
what a turn of the loop costs, and a system call.
"""

_ENDED: Final = {Phase.LEFT: HowEnded.LEFT, Phase.FENCED: HowEnded.FENCED, Phase.FAILED: HowEnded.FAILED}


class GroupMember:
    """One membership (:class:`~airflow_provider.group.membership.Membership`).

    :param state: a new :class:`MemberState`, or a resumed one
    :param policy: how an imbalance is resolved while this member leads
    :param is_gone: which others need not be waited for in a round; None: from here nothing is seen of them
    :param opening: the first event, which goes with the state
    """

    def __init__(
        self,
        state: MemberState,
        transport: GroupTransport,
        topics: GroupTopics,
        listener: MembershipListener,
        *,
        policy: Policy,
        is_gone: KnowsGone | None = None,
        opening: type[Started | Resumed] = Started,
    ) -> None:
        self.state = state
        self._opening = opening
        self._transport = transport
        self._asking = Asking(state.settings, transport, lambda: self.state.phase is Phase.STABLE)
        self._topics = topics
        self._listener = listener
        self._policy = policy
        self._inbox: list[Event] = []  # hardly ever one waits; a deque would take 700 bytes
        self._draining = False
        self._driving = True
        self._failed = False
        self._timer: Timer | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._writes: set[asyncio.Task[None]] = set()
        self._joining: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._records = LeaderRecords(topics, functools.partial(self._spawn, self._writes), self._leads)
        self._watch = LeaderWatch(
            topics,
            limits=state.settings.limits,
            record=lambda: self.state.record,
            want=self._want_rebalance,
            mend=self._records.mend,
            spawn=functools.partial(self._spawn, self._requests),
        )
        self._record_read: ClassicRecord | None = None
        self._gone = None if is_gone is None else GoneMembers(state.settings, transport, topics, is_gone)
        self._topics_watch = TopicsWatch(
            topics, patience_s=state.settings.session_timeout_ms / 1000, gone=self._topics_gone
        )
        self._leaving_for: str | None = None
        self._ready_learners = ReadyLearners()
        self._recent = RecentEvents()

    # ---- what the worker says

    def begin(self, predecessor: Predecessor) -> None:
        self._topics_watch.begin()
        self._unsubscribe = self._topics.subscribe(self._on_topics, About.JOBS | About.ROUNDS)
        self.feed(self._opening(now_ms=now_ms(), config_offset=self._topics.jobs.offset, predecessor=predecessor))
        self._on_topics()

    def tasks_stopped(self, tasks: Tasks) -> None:
        self.feed(TasksStopped(now_ms=now_ms(), tasks=tasks))

    def tasks_finished(self, tasks: Tasks) -> None:
        self.feed(TasksFinished(now_ms=now_ms(), tasks=tasks))

    def learning_progressed(self, progress: Mapping[TaskId, float], failed: Tasks) -> None:
        self.feed(LearningProgressed(now_ms=now_ms(), progress=progress, failed=failed))

    def leave_soon(self, reason: str) -> None:
        self.feed(LeaveSoonRequested(now_ms=now_ms(), reason=reason))

    def leave(self, reason: str) -> None:
        self.feed(LeaveRequested(now_ms=now_ms(), reason=reason))

    @property
    def view(self) -> MembershipView:
        state = self.state
        whole = not state.stopping and not state.held and state.unadopted is None
        return MembershipView(
            epoch=state.epoch,
            member_id=state.member_id,
            owned=state.owned,
            stopping=state.stopping,
            settled=whole and state.phase is Phase.STABLE,
            leaving=state.phase is Phase.LEAVING,
            learns=state.protocol is SubProtocol.EXTENSIBLE,
        )

    @property
    def lease_until_ms(self) -> int | None:
        return self.state.lease_until if self._driving else None

    def story(self) -> str:
        """The last events and commands, to find out what happened."""
        return str(self._recent)

    async def hand_over(self) -> Saved:
        saved = save(self.state, now_ms=now_ms(), wall_ms=wall_ms())
        await self.aclose()
        return {"group_protocol": CLASSIC, **saved}

    def fail(self, bug: BaseException) -> None:
        """End the membership for a fault of this program: a worker must not look alive when it is not.

        It stops its tasks and does not leave: the next process under its name goes on with them, within the session.
        """
        if self._failed:
            return
        log.error(
            "group %s, worker %s: the membership ends, for a fault of this program; what happened last:\n%s",
            self._group_id,
            self._worker,
            self._recent,
            exc_info=bug,
        )
        self._end(f"a fault of this program: {type(bug).__name__}: {bug}")

    async def aclose(self) -> None:
        """Stop driving; the coordinator hears nothing of it. A record of the group that is being written is finished:
        the process that goes on with this membership, or leads after it, needs it.
        """
        self._stop_driving()
        if self._writes:
            await asyncio.wait(self._writes, timeout=_WRITE_WITHIN_S)
        unfinished = (*self._requests, *self._writes)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await self._transport.release(self._worker)

    # ---- events in, commands out

    def feed(self, event: Event) -> None:
        """Take in an event, after those that are being handled. Nothing once this membership is not driven any more: an
        answer that still comes must not set it going again, for it may have been handed over by then.
        """
        if not self._driving:
            return
        self._inbox.append(event)
        if self._draining:
            return
        self._draining = True
        try:
            while self._inbox and self._driving:
                self._step(self._inbox.pop(0))
        except Exception as bug:  # noqa: BLE001  the machine's or the listener's: the caller can't help it
            self.fail(bug)
        finally:
            self._draining = False

    def _step(self, event: Event) -> None:
        before = self.state.phase
        if self.state.lessons.learned and before is not Phase.INITIAL:
            self._hear_of_learners()
        self.state, commands = handle(self.state, event)
        self._recent.add(event, before, self.state.phase, commands)
        for command in commands:
            self._execute(command)
        if self.state.phase is not before:
            self._phase_changed()

    def _hear_of_learners(self) -> None:
        """Before anything that may make it join: what others are ready for, it may stop first."""
        lessons = self.state.lessons
        ready = self._ready_learners.of(lessons.learned, self._topics.status)
        if ready != lessons.known_ready:
            self.state, commands = handle(self.state, LearnersReady(now_ms=now_ms(), tasks=ready))
            assert not any(commands)

    def _phase_changed(self) -> None:
        phase = self.state.phase
        self._watch.lead(phase is Phase.STABLE and self.state.is_leader)
        if phase is Phase.LEFT:
            how = HowEnded.FAILED if self._leaving_for else HowEnded.LEFT
            self._listener.ended(Ended(how=how, error=self._leaving_for))

    def _leads(self) -> bool:
        """Whether no round can have begun without this member. One that has just woken does not know that it was
        expelled; its lease tells.
        """
        until = self.lease_until_ms
        return self.state.phase is Phase.STABLE and self.state.is_leader and until is not None and now_ms() < until

    def _execute(self, command: Command) -> None:
        match command:
            case ArmTimer():
                self._arm(command.at_ms)
            case StartTasks() | StopTasks() | StartLearning() | StopLearning() | MayLeave() | PublishAssignment():
                self._tell_worker(command)
            case Warn():
                log.warning("group %s, worker %s: %s", self._group_id, self._worker, command.message)
            case Fail():
                error = f"{command.error}{self._asking.whom_to_allow}"
                log.error("group %s, worker %s: %s", self._group_id, self._worker, error)
                self._listener.ended(Ended(how=_ENDED[self.state.phase], error=error))
            case PublishGroup():
                self._records.publish(command.record)
            case PerformAssignment():
                self._spawn(self._requests, self._assign(command))
            case FindCoordinator() | SendJoin() | SendSync() | SendHeartbeat() | SendLeave():
                self._request(command)
            case _:
                raise AssertionError(f"no way to carry out {command}")

    def _tell_worker(
        self, command: StartTasks | StopTasks | StartLearning | StopLearning | MayLeave | PublishAssignment
    ) -> None:
        match command:
            case StartTasks():
                self._listener.start_tasks(command.tasks, command.epoch)
            case StopTasks():
                self._listener.stop_tasks(command.tasks, command.reason)
            case StartLearning():
                self._listener.start_learning(command.tasks)
            case StopLearning():
                self._listener.stop_learning(command.tasks)
            case MayLeave():
                self._listener.may_leave()
            case PublishAssignment():
                self._listener.assigned(command.epoch)

    def _arm(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        together_ms = max(_TOGETHER_MS, min((at_ms - now_ms()) // _PART_OF_WAIT, _MOST_TOGETHER_MS))
        self._timer = call_at((at_ms // together_ms + 1) * together_ms, self._fire)

    def _fire(self) -> None:
        self.feed(TimerFired(now_ms=now_ms()))

    # ---- requests

    def _spawn(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(functools.partial(self._done, tasks))
        return task

    def _done(self, tasks: set[asyncio.Task[None]], task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if task is self._joining:
            self._joining = None
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            self.fail(bug)

    def _request(self, question: Question) -> None:
        if isinstance(question, SendHeartbeat) and self._asking.heartbeat_waits:
            return
        if isinstance(question, (SendJoin, SendLeave)):
            self._give_up_join()
        asking = self._spawn(self._requests, self._ask(question))
        if isinstance(question, SendJoin):
            self._joining = asking
            if self._gone is not None:
                self._spawn(self._requests, self._gone.remove_while(asking, NodeId(question.node)))

    def _give_up_join(self) -> None:
        """A JoinGroup that still waits for a connection must not be sent after the next one: it would look like another
        process under this worker's name. Nor after LeaveGroup: the group would have a member that nobody drives.
        """
        if self._joining is not None and self._joining is not asyncio.current_task():
            self._joining.cancel()

    async def _ask(self, question: Question) -> None:
        if isinstance(question, SendLeave):
            await self._listener.farewell()
        try:
            answer = await self._asking.ask(question)
        except TransportError as never:
            self._end(str(never))
            return
        self.feed(answer)

    async def _assign(self, command: PerformAssignment) -> None:
        try:
            computed = await self._computed(command)
        except (TopicError, TimeoutError, asyncio.TimeoutError) as failed:
            self.feed(self._asking.unanswered(Request.SYNC, command.seq, failed))
            return
        if computed.record is not None:
            self._records.prepare(computed.record)
        self.feed(computed)

    async def _computed(self, command: PerformAssignment) -> AssignmentComputed:
        try:
            await self._topics.catch_up()
        except (NoTopicError, TopicRenewedError) as gone:
            self._topics_watch.missed(gone.topic)
            raise
        self._on_topics()
        return await assign(command, self._topics, policy=self._policy, settings=self.state.settings)

    # ---- endings that are not the machine's

    def _topics_gone(self, topic: str) -> None:
        self._leaving_for = (
            f"the topic {topic!r} of group {self._group_id!r} is gone; was the broker started again without its"
            " data? A worker that starts makes the topics anew if they are missing; jobs have to be submitted again"
        )
        log.error("group %s, worker %s: %s", self._group_id, self._worker, self._leaving_for)
        self.leave("the topics of the group are gone")

    def _end(self, error: str) -> None:
        if self._failed:
            return
        self._failed = True
        self._stop_driving()
        for request in self._requests:
            request.cancel()
        try:
            self._listener.stop_tasks(self.state.owned, StopReason.FAILED)
        except Exception:
            log.exception("group %s, worker %s: its tasks were not told to stop", self._group_id, self._worker)
        self._listener.ended(Ended(how=HowEnded.FAILED, error=error))

    def _stop_driving(self) -> None:
        self._driving = False
        self._watch.close()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._timer is not None:
            self._timer.cancel()

    # ---- the topics

    def _on_topics(self) -> None:
        """The jobs or the status topic has something new, is gone, or is read no more."""
        fault = self._topics.fault
        if fault is not None:
            self.fail(fault)
            return
        self._topics_watch.look()
        jobs, record = self._topics.jobs, last_round(self._topics.status)
        if jobs.offset > self.state.config_offset:
            self.feed(ConfigAdvanced(now_ms=now_ms(), config_offset=jobs.offset))
        if record is not None and record is not self._record_read:
            self._record_read = record
            self.feed(RecordRead(now_ms=now_ms(), record=record, age_ms=max(0, wall_ms() - record.at_ms)))

    def _want_rebalance(self, reason: str) -> None:
        self.feed(RebalanceWanted(now_ms=now_ms(), reason=reason))

    @property
    def _group_id(self) -> str:
        return self.state.settings.group_id

    @property
    def _worker(self) -> WorkerId:
        return self.state.settings.worker
