"""Drives one membership: carries out the member machine's commands and feeds it what comes of them.

Everything runs on one event loop. Nothing is decided here; see :mod:`airflow_provider.membership.member`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.leading import LeaderWatch, gather_call
from airflow_provider.kafka.log_errors import LogError
from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.messages import JoinRequest, NodeId, SyncRequest
from airflow_provider.kafka.transport import GroupTransport
from airflow_provider.membership.errors import KafkaErrorCode
from airflow_provider.membership.events import (
    ArmTimer,
    AssignmentComputed,
    Command,
    ConfigAdvanced,
    CoordinatorFound,
    Event,
    Fail,
    FindCoordinator,
    HeartbeatAnswered,
    Joined,
    JoinedMember,
    LeaveRequested,
    Left,
    PerformAssignment,
    PublishAssignment,
    PublishGroup,
    RebalanceWanted,
    RecordRead,
    Request,
    RequestFailed,
    RequestRejected,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    StartTasks,
    StopReason,
    StopTasks,
    Synced,
    TasksFinished,
    TasksStopped,
    TimerFired,
    Warn,
)
from airflow_provider.membership.leader import lead
from airflow_provider.membership.member import handle
from airflow_provider.membership.model import PROTOCOL_TYPE, Epoch, MemberId, SubProtocol, Tasks, WorkerId
from airflow_provider.membership.state import MemberState, Phase, save

log = logging.getLogger(__name__)

_WRITE_WITHIN_S = 2.0

_THREAD_FROM_TASKS = 2_000
"""A leader with so many tasks to assign does it in a thread, so that the loop's other memberships go on."""


class MembershipListener(Protocol):
    """Whoever runs the tasks of a membership. Called on the event loop; must not block or raise."""

    def start_tasks(self, tasks: Tasks, epoch: Epoch) -> None:
        """These are this worker's from ``epoch`` on."""

    def stop_tasks(self, tasks: Tasks, reason: StopReason) -> None:
        """Stop these, started or not, and tell :meth:`GroupMember.tasks_stopped`."""

    def assigned(self, assignment: PublishAssignment) -> None:
        """A round is over; ``assignment`` is what this worker has by now."""

    def ended(self, phase: Phase, error: str | None) -> None:
        """The membership is over: left, fenced, or failed."""


class GroupMember:
    """One membership.

    :param state: a new :class:`MemberState`, or a resumed one
    :param max_delay_ms: how long lost tasks wait for their worker while this member leads
        (``scheduled.rebalance.max.delay.ms``)
    """

    def __init__(
        self,
        state: MemberState,
        transport: GroupTransport,
        logs: GroupLogs,
        listener: MembershipListener,
        *,
        max_delay_ms: int,
    ) -> None:
        self.state = state
        self._transport = transport
        self._logs = logs
        self._listener = listener
        self._max_delay_ms = max_delay_ms
        self._inbox: deque[Event] = deque()
        self._draining = False
        self._timer: asyncio.TimerHandle | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._writes: set[asyncio.Task[None]] = set()
        self._unsubscribe: Callable[[], None] | None = None
        self._watch = LeaderWatch(logs, self._want_rebalance, lambda: self._spawn(self._mend()))
        self._away_since: float | None = None
        self._story: deque[str] = deque(maxlen=50)

    # ---- what the worker says

    def begin(self, event: Event) -> None:
        """Start with a ``Started`` or ``Resumed`` event."""
        self._unsubscribe = self._logs.subscribe(self._on_logs)
        self.feed(event)
        self._on_logs()

    def tasks_stopped(self, tasks: Tasks) -> None:
        self.feed(TasksStopped(now_ms=now_ms(), tasks=tasks))

    def tasks_finished(self, tasks: Tasks) -> None:
        self.feed(TasksFinished(now_ms=now_ms(), tasks=tasks))

    def leave(self, reason: str) -> None:
        self.feed(LeaveRequested(now_ms=now_ms(), reason=reason))

    @property
    def lease_until_ms(self) -> int | None:
        """Monotonic milliseconds; None before the first lease and after the end."""
        return self.state.lease_until

    def story(self) -> str:
        """The last events and commands, a line each, for whoever has to find out what happened."""
        return "\n".join(self._story)

    async def hand_over(self) -> dict[str, Any]:
        """Stop driving this membership without leaving; give what another process needs to go on with it."""
        saved = save(self.state, now_ms=now_ms(), wall_ms=wall_ms())
        await self.aclose()
        return saved

    async def aclose(self) -> None:
        """Stop driving; the coordinator hears nothing of it. A record of the group that is being written is finished:
        the process that goes on with this membership, or leads after it, needs it.
        """
        self._watch.close()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._timer is not None:
            self._timer.cancel()
        for request in self._requests:
            request.cancel()
        if self._writes:
            await asyncio.wait(self._writes, timeout=_WRITE_WITHIN_S)
        for unfinished in (*self._requests, *self._writes):
            unfinished.cancel()
        await asyncio.gather(*self._requests, *self._writes, return_exceptions=True)
        await self._transport.release(self.state.settings.worker)

    # ---- events in, commands out

    def feed(self, event: Event) -> None:
        """Take in an event, after those that are being handled."""
        self._inbox.append(event)
        if self._draining:
            return
        self._draining = True
        try:
            while self._inbox:
                self._step(self._inbox.popleft())
        finally:
            self._draining = False

    def _step(self, event: Event) -> None:
        before = self.state.phase
        self.state, commands = handle(self.state, event)
        self._story.append(f"{event.now_ms} {before.value}: {type(event).__name__} -> {self.state.phase.value}")
        for command in commands:
            self._story.append(f"    {type(command).__name__}")
            self._execute(command)
        if self.state.phase is not before:
            self._phase_changed()

    def _phase_changed(self) -> None:
        phase = self.state.phase
        self._watch.leading = phase is Phase.STABLE and self.state.is_leader
        if phase is Phase.STABLE:
            self._back()
        if phase.ended and phase is Phase.LEFT:
            self._listener.ended(phase, None)

    def _execute(self, command: Command) -> None:
        match command:
            case ArmTimer():
                self._arm(command.at_ms)
            case StartTasks():
                self._listener.start_tasks(command.tasks, command.epoch)
            case StopTasks():
                self._listener.stop_tasks(command.tasks, command.reason)
            case PublishAssignment():
                self._listener.assigned(command)
            case Warn():
                log.warning("group %s, worker %s: %s", self._group_id, self._worker, command.message)
            case Fail():
                log.error("group %s, worker %s: %s", self._group_id, self._worker, command.error)
                self._listener.ended(self.state.phase, command.error)
            case _:
                self._execute_slowly(command)

    def _execute_slowly(self, command: Command) -> None:
        match command:
            case FindCoordinator():
                self._send(self._find_coordinator(command), Request.FIND_COORDINATOR, command.seq)
            case SendJoin():
                self._send(self._join(command), Request.JOIN, command.seq)
            case PerformAssignment():
                self._send(self._assign(command), Request.SYNC, command.seq)
            case SendSync():
                self._send(self._sync(command), Request.SYNC, command.seq)
            case SendHeartbeat():
                self._send(self._heartbeat(command), Request.HEARTBEAT, command.seq)
            case SendLeave():
                self._send(self._leave(command), Request.LEAVE, command.seq)
            case PublishGroup():
                self._spawn_in(self._writes, self._publish_group(command))
            case _:
                raise AssertionError(f"no way to carry out {command}")

    def _arm(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        # A millisecond late rather than early: the machine counts whole milliseconds.
        self._timer = loop.call_at((at_ms + 1) / 1000, lambda: self.feed(TimerFired(now_ms=now_ms())))

    # ---- requests

    def _spawn(self, work: Awaitable[None]) -> None:
        self._spawn_in(self._requests, work)

    @staticmethod
    def _spawn_in(tasks: set[asyncio.Task[None]], work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _send(self, request: Awaitable[None], kind: Request, seq: int) -> None:
        self._spawn(self._answer(request, kind, seq))

    async def _answer(self, request: Awaitable[None], kind: Request, seq: int) -> None:
        try:
            await request
        except (TransportError, LogError, TimeoutError, asyncio.TimeoutError) as failed:
            cause = str(failed) or type(failed).__name__
            self._away(kind, cause)
            self.feed(RequestFailed(now_ms=now_ms(), seq=seq, request=kind, cause=cause))

    def _rejected(self, seq: int, request: Request, error: KafkaErrorCode, member_id: MemberId = MemberId("")) -> None:
        self.feed(RequestRejected(now_ms=now_ms(), seq=seq, request=request, error=error, member_id=member_id))

    async def _find_coordinator(self, command: FindCoordinator) -> None:
        found = await self._transport.find_coordinator(self._group_id)
        if found.error:
            self._rejected(command.seq, Request.FIND_COORDINATOR, found.error)
        else:
            self.feed(CoordinatorFound(now_ms=now_ms(), seq=command.seq, node=found.node))

    async def _join(self, command: SendJoin) -> None:
        settings = self.state.settings
        answer = await self._transport.join(
            NodeId(command.node),
            JoinRequest(
                group_id=settings.group_id,
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                member_id=command.member_id,
                group_instance_id=settings.worker,
                protocol_type=PROTOCOL_TYPE,
                protocols=command.protocols,
                reason=command.reason,
            ),
        )
        if answer.error:
            self._rejected(command.seq, Request.JOIN, answer.error, answer.member_id)
            return
        self.feed(
            Joined(
                now_ms=now_ms(),
                seq=command.seq,
                generation=answer.generation,
                protocol=SubProtocol(answer.protocol),
                leader=answer.leader,
                member_id=answer.member_id,
                skip_assignment=answer.skip_assignment,
                members=tuple(
                    JoinedMember(
                        member_id=member.member_id, instance_id=member.group_instance_id, metadata=member.metadata
                    )
                    for member in answer.members
                ),
            )
        )

    async def _assign(self, command: PerformAssignment) -> None:
        await self._logs.catch_up()
        self._on_logs()
        call = gather_call(command, self._logs, max_delay_ms=self._max_delay_ms, wall_ms=wall_ms())
        verdict = await asyncio.to_thread(lead, call) if len(call.configured) >= _THREAD_FROM_TASKS else lead(call)
        for worker in verdict.unreadable:
            log.warning(
                "group %s: what worker %s says of itself cannot be read; it gets nothing", self._group_id, worker
            )
        self.feed(
            AssignmentComputed(now_ms=now_ms(), seq=command.seq, assignments=verdict.assignments, record=verdict.record)
        )

    async def _sync(self, command: SendSync) -> None:
        answer = await self._transport.sync(
            NodeId(command.node),
            SyncRequest(
                group_id=self._group_id,
                generation=command.generation,
                member_id=command.member_id,
                group_instance_id=self._worker,
                protocol_type=PROTOCOL_TYPE,
                protocol=command.protocol.value,
                assignments=command.assignments,
            ),
        )
        if answer.error:
            self._rejected(command.seq, Request.SYNC, answer.error)
        else:
            self.feed(Synced(now_ms=now_ms(), seq=command.seq, assignment=answer.assignment))

    async def _heartbeat(self, command: SendHeartbeat) -> None:
        settings = self.state.settings
        sent_at = now_ms()
        error = await asyncio.wait_for(
            self._transport.heartbeat(
                NodeId(command.node), settings.group_id, command.generation, command.member_id, settings.worker
            ),
            (settings.session_timeout_ms - settings.lease_margin_ms) / 1000,
        )
        self.feed(
            HeartbeatAnswered(
                now_ms=now_ms(),
                sent_at_ms=sent_at,
                member_id=command.member_id,
                generation=command.generation,
                error=error,
            )
        )

    async def _leave(self, command: SendLeave) -> None:
        error = await self._transport.leave(
            NodeId(command.node), self._group_id, command.member_id, self._worker, reason=command.reason
        )
        if error:
            self._rejected(command.seq, Request.LEAVE, error)
        else:
            self.feed(Left(now_ms=now_ms(), seq=command.seq))

    async def _publish_group(self, command: PublishGroup) -> None:
        """Without the record nothing breaks: workers that come back join anew, the next leader has no memory."""
        try:
            await self._logs.publish_group(command.record)
        except LogError as failed:
            log.warning(
                "group %s: the record of epoch %d was not written: %s", self._group_id, command.record.epoch, failed
            )

    async def _mend(self) -> None:
        """Compaction keeps the last record of a key, and that must not be one that a worker wrote too late."""
        try:
            await self._logs.reassert()
        except LogError as failed:
            log.warning("group %s: records that a stale worker wrote over were not mended: %s", self._group_id, failed)

    # ---- the topics

    def _on_logs(self) -> None:
        """The jobs or the status topic has something new."""
        jobs, status = self._logs.jobs, self._logs.status
        if jobs.offset > self.state.config_offset:
            self.feed(ConfigAdvanced(now_ms=now_ms(), config_offset=jobs.offset))
        if status.group is not None and status.group is not self.state.record:
            self.feed(RecordRead(now_ms=now_ms(), record=status.group))
        self._watch.look()

    def _want_rebalance(self, reason: str) -> None:
        self.feed(RebalanceWanted(now_ms=now_ms(), reason=reason))

    # ---- logging: once when the coordinator goes, once when it is back

    def _away(self, request: Request, cause: str) -> None:
        if self._away_since is None:
            self._away_since = time.monotonic()
            log.warning(
                "group %s, worker %s: %s was not answered (%s); trying again until it is",
                self._group_id,
                self._worker,
                request.value,
                cause,
            )

    def _back(self) -> None:
        if self._away_since is not None:
            away = time.monotonic() - self._away_since
            self._away_since = None
            log.info("group %s, worker %s: back in the group after %.1f s", self._group_id, self._worker, away)

    @property
    def _group_id(self) -> str:
        return self.state.settings.group_id

    @property
    def _worker(self) -> WorkerId:
        return self.state.settings.worker


def now_ms() -> int:
    """The monotonic clock that asyncio's loop uses, in milliseconds."""
    return int(time.monotonic() * 1000)


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)
