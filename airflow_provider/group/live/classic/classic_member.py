"""Drives one membership in a classic group.

It carries out the commands that only :mod:`airflow_provider.group.classic.member.member` has, and feeds the results
back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from airflow_provider.assignment.policy import Policy
from airflow_provider.group.classic.member.events import (
    AssignmentComputed,
    FindCoordinator,
    HeartbeatAnswered,
    LearnersReady,
    LearningProgressed,
    LeaveSoonRequested,
    MayLeave,
    PerformAssignment,
    PublishGroup,
    RebalanceHinted,
    RebalanceWanted,
    RecordRead,
    Request,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Started,
    StartLearning,
    StopLearning,
)
from airflow_provider.group.classic.member.member import handle
from airflow_provider.group.classic.member.saved import save
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.live.classic.gone import GoneMembers
from airflow_provider.group.live.classic.leader_records import LeaderRecords
from airflow_provider.group.live.classic.leader_watch import LeaderWatch
from airflow_provider.group.live.classic.leading import assign, last_round
from airflow_provider.group.live.classic.ready_learners import ReadyLearners
from airflow_provider.group.live.classic.sending import Asking, Question
from airflow_provider.group.live.driving import Driving
from airflow_provider.group.machine.events import Command, Event, TimerFired
from airflow_provider.group.membership import KnowsGone, MembershipListener, MembershipView, Saved
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.group_requests.messages import NodeId
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError, TopicRenewedError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.task_progress.progress import spoken_epoch
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import TaskId, Tasks
from airflow_provider.values.saved import CLASSIC


def is_routine(event: Event, commands: Iterable[Command]) -> bool:
    """Whether this is a heartbeat that goes well, or a hint that brings one forward."""
    well = isinstance(event, HeartbeatAnswered) and event.error is KafkaErrorCode.NONE
    usual = well or isinstance(event, (TimerFired, RebalanceHinted))
    return usual and all(isinstance(one, SendHeartbeat) for one in commands)


class GroupMember(Driving[MemberState]):
    """One membership (:class:`~airflow_provider.group.membership.Membership`).

    :param state: a new :class:`MemberState`, or a resumed one
    :param policy: how an imbalance is resolved while this member leads
    :param is_gone: which workers have ended, so that a round need not wait for them; None: this process can't tell
    :param opening: the type of the first event, which depends on the state
    """

    about = About.JOBS | About.ROUNDS
    most_together_ms = 50

    def __init__(
        self,
        state: MemberState,
        transport: GroupTransport,
        topics: GroupTopics,
        listener: MembershipListener,
        *,
        policy: Policy,
        is_gone: KnowsGone | None = None,
        opening: type[Started] = Started,
    ) -> None:
        patience_s = state.settings.session_timeout_ms / 1000
        super().__init__(state, handle, topics, listener, is_routine=is_routine, patience_s=patience_s)
        self._opening = opening
        self._transport = transport
        self._asking = Asking(state.settings, transport, lambda: self.state.phase is Phase.STABLE)
        self._policy = policy
        self._joining: asyncio.Task[None] | None = None
        self._records = LeaderRecords(topics, self._write, self._leads)
        self._watch = LeaderWatch(
            topics,
            limits=state.settings.limits,
            record=lambda: self.state.record,
            want=self._want_rebalance,
            mend=self._records.mend,
            spawn=self._spawn,
        )
        self._record_read: ClassicRecord | None = None
        self._gone = None if is_gone is None else GoneMembers(state.settings, transport, topics, is_gone)
        self._ready_learners = ReadyLearners()
        self._unsubscribe_hints: Callable[[], None] | None = None

    # ---- what the worker reports

    def begin(self, predecessor: Predecessor) -> None:
        """Begin, heeding hints from now on: older records in the topics hint at nothing new."""
        self._unsubscribe_hints = self._topics.subscribe(self._hinted, About.HINTS)
        super().begin(predecessor)

    def _first_event(self, predecessor: Predecessor) -> Event:
        return self._opening(
            now_ms=now_ms(),
            config_offset=self._topics.jobs.offset,
            predecessor=predecessor,
            spoken_epoch=spoken_epoch(self._topics.status),
        )

    def learning_progressed(self, progress: Mapping[TaskId, float], failed: Tasks) -> None:
        self.feed(LearningProgressed(now_ms=now_ms(), progress=progress, failed=failed))

    def leave_soon(self, reason: str) -> None:
        self.feed(LeaveSoonRequested(now_ms=now_ms(), reason=reason))

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
            learns=state.learns,
        )

    def _save(self) -> Saved:
        return {"group_protocol": CLASSIC, **save(self.state, now_ms=now_ms(), wall_ms=wall_ms())}

    async def aclose(self) -> None:
        await super().aclose()
        await self._transport.release(self._worker)

    # ---- events in, commands out

    def _step(self, event: Event) -> None:
        if self.state.lessons.learned and self.state.phase is not Phase.INITIAL:
            self._hear_of_learners()
        super()._step(event)

    def _hear_of_learners(self) -> None:
        """Note for which tasks others are ready, before any event that may make this member join and stop these."""
        lessons = self.state.lessons
        ready = self._ready_learners.of(lessons.learned, self._topics.status)
        if ready != lessons.known_ready:
            self.state, commands = handle(self.state, LearnersReady(now_ms=now_ms(), tasks=ready))
            assert not any(commands)

    def _phase_changed(self) -> None:
        self._watch.lead(self.state.phase is Phase.STABLE and self.state.is_leader)
        super()._phase_changed()

    def _leads(self) -> bool:
        """Whether no round can have begun without this member. After a suspension it may not know yet that it was
        expelled; its lease tells.
        """
        until = self.lease_until_ms
        return self.state.phase is Phase.STABLE and self.state.is_leader and until is not None and now_ms() < until

    def _execute(self, command: Command) -> None:
        match command:
            case FindCoordinator() | SendJoin() | SendSync() | SendHeartbeat() | SendLeave():
                self._request(command)
            case StartLearning():
                self._listener.start_learning(command.tasks)
            case StopLearning():
                self._listener.stop_learning(command.tasks)
            case MayLeave():
                self._listener.may_leave()
            case PerformAssignment():
                self._spawn(self._assign(command))
            case PublishGroup():
                self._records.publish(command.record)
            case _:
                super()._execute(command)

    def _explain(self, error: str) -> str:
        return f"{error}{self._asking.whom_to_allow}"

    # ---- requests

    def _done(self, task: asyncio.Task[None]) -> None:
        if task is self._joining:
            self._joining = None
        super()._done(task)

    def _request(self, question: Question) -> None:
        if isinstance(question, SendHeartbeat) and self._asking.heartbeat_waits:
            return
        if isinstance(question, (SendJoin, SendLeave)):
            self._give_up_join()
        asking = self._spawn(self._ask(question))
        if isinstance(question, SendJoin):
            self._joining = asking
            if self._gone is not None:
                self._spawn(self._gone.remove_while(asking, NodeId(question.node)))

    def _give_up_join(self) -> None:
        """Cancel a JoinGroup that still waits for a connection.

        Sent after the next JoinGroup, it would look like another process under this worker's name. Sent after
        LeaveGroup, it would add a member that nobody drives.
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

    # ---- ends that the machine does not decide

    def _stop_driving(self) -> None:
        super()._stop_driving()
        self._watch.close()
        if self._unsubscribe_hints is not None:
            self._unsubscribe_hints()
            self._unsubscribe_hints = None

    # ---- the topics

    def _on_topics(self) -> None:
        super()._on_topics()
        record = last_round(self._topics.status)
        if record is not None and record is not self._record_read:
            self._record_read = record
            self._record_seen(record)
            self.feed(RecordRead(now_ms=now_ms(), record=record, age_ms=max(0, wall_ms() - record.at_ms)))

    def _record_seen(self, record: ClassicRecord) -> None:
        """Called with a newer record before the machine handles it; for subclasses."""

    def _hinted(self) -> None:
        self.feed(RebalanceHinted(now_ms=now_ms()))

    def _want_rebalance(self, reason: str) -> None:
        self.feed(RebalanceWanted(now_ms=now_ms(), reason=reason))
