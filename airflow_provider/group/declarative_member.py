"""Drives one membership in a declarative group: carries out its machine's commands and feeds it what comes of them.

Everything runs on one event loop. Nothing is decided here; see :mod:`airflow_provider.declarative_membership.member`.
Only what the machine can't know ends a membership from here: a fault of this program, and topics that are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

from airflow_provider.declarative.model import LEAVING
from airflow_provider.declarative.units import tasks_of
from airflow_provider.declarative.wire.apis import ReplyBody
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatRequest, ConnectGroupHeartbeatResponse
from airflow_provider.declarative.wire.install_assignment import ConnectGroupInstallAssignmentResponse
from airflow_provider.declarative.wire.parts import Assignor
from airflow_provider.declarative.wire.prepare_assignment import ConnectGroupPrepareAssignmentResponse
from airflow_provider.declarative_membership.events import (
    ArmTimer,
    AssignorsChanged,
    Command,
    ComputeAssignment,
    ConfigAdvanced,
    Event,
    Fail,
    HeartbeatAnswered,
    InstallAnswered,
    LeaveRequested,
    OnAssignment,
    PrepareAnswered,
    PublishAssignment,
    PublishGroup,
    Request,
    RequestFailed,
    Resumed,
    SendRequest,
    Started,
    StartTasks,
    StopTasks,
    TasksFinished,
    TasksStopped,
    TellDelayOver,
    TimerFired,
    Warn,
)
from airflow_provider.declarative_membership.member import handle
from airflow_provider.declarative_membership.record import DeclarativeRecord
from airflow_provider.declarative_membership.saved import save
from airflow_provider.declarative_membership.state import Assigning, MembershipState, Phase
from airflow_provider.group.membership import Ended, HowEnded, MembershipListener, MembershipView, Saved
from airflow_provider.group.request_channel import NoReplyError, RequestChannel
from airflow_provider.group.silence import Silence
from airflow_provider.group.timers import Timer, call_at
from airflow_provider.group.topics_watch import TopicsWatch
from airflow_provider.group.worker_assignors import WorkerAssignors
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.ledger.topic_view import About
from airflow_provider.protocol.holding import Predecessor, StopReason
from airflow_provider.protocol.model import ConfigOffset, TaskId, Tasks, WorkerId
from airflow_provider.protocol.saved import CONNECT
from airflow_provider.topics.errors import TopicError
from airflow_provider.topics.group_topics import GroupTopics

log = logging.getLogger(__name__)

_LAST_LOOK_S: Final = 2.0
_TOGETHER_MS: Final = 10
_ENDED: Final = {Phase.LEFT: HowEnded.LEFT, Phase.FENCED: HowEnded.FENCED, Phase.FAILED: HowEnded.FAILED}


class DeclarativeMember:
    """One membership (:class:`~airflow_provider.group.membership.Membership`).

    :param state: a new :class:`MembershipState`, or a resumed one
    :param assignors: what this member says and computes
    :param opening: the first event, which goes with the state
    """

    def __init__(
        self,
        state: MembershipState,
        channel: RequestChannel,
        topics: GroupTopics,
        listener: MembershipListener,
        assignors: WorkerAssignors,
        *,
        opening: type[Started | Resumed] = Started,
    ) -> None:
        self.state = state
        self._opening = opening
        self._channel = channel
        self._topics = topics
        self._listener = listener
        self._assignors = assignors
        self._inbox: list[Event] = []
        self._draining = False
        self._driving = True
        self._failed = False
        self._timer: Timer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._heartbeat: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] | None = None
        self._silence = Silence(self._group_id, self._worker)
        self._topics_watch = TopicsWatch(topics, patience_s=state.session_ms / 1000, gone=self._topics_gone)
        self._leaving_for: str | None = None

    # ---- what the worker says

    def begin(self, predecessor: Predecessor) -> None:
        self._topics_watch.begin()
        self._unsubscribe = self._topics.subscribe(self._on_topics, About.JOBS)
        self.feed(
            self._opening(
                now_ms=now_ms(),
                config_offset=self._topics.jobs.offset,
                predecessor=predecessor,
                assignors=self._said(),
            )
        )
        self._on_topics()

    def tasks_stopped(self, tasks: Tasks) -> None:
        self.feed(TasksStopped(now_ms=now_ms(), tasks=tasks))

    def tasks_finished(self, tasks: Tasks) -> None:
        self.feed(TasksFinished(now_ms=now_ms(), tasks=tasks))

    def learning_progressed(self, progress: Mapping[TaskId, float], failed: Tasks) -> None:
        """Nothing is learned in such a group."""

    def leave_soon(self, reason: str) -> None:
        """Nobody learns what this worker has: it leaves as any other."""

    def leave(self, reason: str) -> None:
        self.feed(LeaveRequested(now_ms=now_ms(), reason=reason))

    @property
    def view(self) -> MembershipView:
        state = self.state
        at_rest = not state.stopping and not state.held and state.assigning is Assigning.NOT
        return MembershipView(
            epoch=state.assignment_epoch,
            member_id=state.member_id,
            owned=state.owned,
            stopping=state.stopping,
            settled=at_rest and state.phase is Phase.STABLE and not state.acknowledges,
            leaving=state.phase is Phase.LEAVING,
        )

    @property
    def lease_until_ms(self) -> int | None:
        return self.state.lease_until if self._driving else None

    async def hand_over(self) -> Saved:
        saved = save(self.state, now_ms=now_ms(), wall_ms=wall_ms())
        await self.aclose()
        return {"group_protocol": CONNECT, **saved}

    def fail(self, bug: BaseException) -> None:
        """End the membership for a fault of this program: a worker must not look alive when it is not."""
        if not self._failed:
            log.error("group %s, worker %s: the membership ends", self._group_id, self._worker, exc_info=bug)
            self._end(f"a fault of this program: {type(bug).__name__}: {bug}")

    async def aclose(self) -> None:
        self._stop_driving()
        unfinished = tuple(self._tasks)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

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
        self.state, commands = handle(self.state, event)
        for command in commands:
            self._execute(command)
        if self.state.phase is Phase.LEFT and before is not Phase.LEFT:
            how = HowEnded.FAILED if self._leaving_for else HowEnded.LEFT
            self._listener.ended(Ended(how=how, error=self._leaving_for))

    def _execute(self, command: Command) -> None:
        match command:
            case SendRequest():
                self._send(command)
            case ComputeAssignment():
                self._spawn(self._compute(command))
            case OnAssignment():
                self.feed(self._assignors.on_assignment(command.assignment))
            case TellDelayOver():
                self._say_what_is_new()
            case ArmTimer():
                self._arm(command.at_ms)
            case PublishGroup():
                self._spawn(self._publish(command.record))
            case Warn():
                log.warning("group %s, worker %s: %s", self._group_id, self._worker, command.message)
            case StartTasks() | StopTasks() | PublishAssignment() | Fail():
                self._tell_worker(command)
            case _:
                raise AssertionError(f"no way to carry out {command}")

    def _tell_worker(self, command: StartTasks | StopTasks | PublishAssignment | Fail) -> None:
        match command:
            case StartTasks():
                self._listener.start_tasks(command.tasks, command.epoch)
            case StopTasks():
                self._listener.stop_tasks(command.tasks, command.reason)
            case PublishAssignment():
                self._listener.assigned(command.epoch)
            case Fail():
                log.error("group %s, worker %s: %s", self._group_id, self._worker, command.error)
                self._listener.ended(Ended(how=_ENDED[self.state.phase], error=command.error))

    def _arm(self, at_ms: int) -> None:
        """Timers are due together, every so many milliseconds: many memberships share a turn of the loop."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = call_at((at_ms // _TOGETHER_MS + 1) * _TOGETHER_MS, self._fire)

    def _fire(self) -> None:
        self.feed(TimerFired(now_ms=now_ms()))

    def _said(self) -> tuple[Assignor, ...]:
        return self._assignors.said(self.state.delay_passed_ms)

    def _say_what_is_new(self) -> None:
        said = self._said()
        if said != self.state.assignors:
            self.feed(AssignorsChanged(now_ms=now_ms(), assignors=said))

    # ---- requests

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            self.fail(bug)

    def _send(self, command: SendRequest) -> None:
        """A heartbeat takes the place of the one before, whose reply does nothing any more."""
        asking = self._spawn(self._ask(command))
        if command.request is Request.HEARTBEAT:
            if self._heartbeat is not None and self._heartbeat is not asyncio.current_task():
                self._heartbeat.cancel()
            self._heartbeat = asking

    async def _ask(self, command: SendRequest) -> None:
        body = command.body
        if isinstance(body, ConnectGroupHeartbeatRequest) and body.member_epoch == LEAVING:
            body = await self._last_words(body)
        sent_at_ms = now_ms()
        try:
            reply = await self._channel.ask(body, timeout_s=command.timeout_ms / 1000)
        except NoReplyError as missing:
            self._silence.unanswered(command.request, str(missing))
            self.feed(RequestFailed(now_ms=now_ms(), seq=command.seq, request=command.request, cause=str(missing)))
            return
        self.feed(self._answer(command, reply, sent_at_ms))
        if command.request is Request.HEARTBEAT and self.state.phase is Phase.STABLE and not self.state.attempts:
            self._silence.over()
            self._say_what_is_new()

    async def _last_words(self, goodbye: ConnectGroupHeartbeatRequest) -> ConnectGroupHeartbeatRequest:
        """What the others have to know comes first; why the worker leaves goes with it."""
        await self._listener.farewell()
        with contextlib.suppress(TopicError, TimeoutError, asyncio.TimeoutError):
            await asyncio.wait_for(self._topics.catch_up(), _LAST_LOOK_S)
        return replace(goodbye, client_assignors=self._said() or None)

    def _answer(self, command: SendRequest, reply: ReplyBody, sent_at_ms: int) -> Event:
        match reply:
            case ConnectGroupHeartbeatResponse():
                return HeartbeatAnswered(
                    now_ms=now_ms(),
                    seq=command.seq,
                    sent_at_ms=sent_at_ms,
                    reply=reply,
                    needed_offset=self._needed_offset(reply),
                )
            case ConnectGroupPrepareAssignmentResponse():
                return PrepareAnswered(now_ms=now_ms(), seq=command.seq, sent_at_ms=sent_at_ms, reply=reply)
            case ConnectGroupInstallAssignmentResponse():
                return InstallAnswered(now_ms=now_ms(), seq=command.seq, sent_at_ms=sent_at_ms, reply=reply)

    async def _compute(self, command: ComputeAssignment) -> None:
        self.feed(await self._assignors.compute(command))

    async def _publish(self, record: DeclarativeRecord) -> None:
        """For those who look on; without it nothing breaks."""
        try:
            await self._topics.publish_group(record)
        except TopicError as failed:
            log.warning("group %s: the record of epoch %d was not written: %s", self._group_id, record.epoch, failed)

    # ---- the topics

    def _needed_offset(self, reply: ConnectGroupHeartbeatResponse) -> ConfigOffset:
        """What is assigned and not known here is in the part of the jobs topic that the coordinator has read and this
        process has not: it is read up to its present end first.
        """
        jobs = self._topics.jobs
        if reply.assignment is None:
            return self.state.needed_offset
        if all(jobs.work_of(task) is not None for task in tasks_of(reply.assignment.connectors_and_tasks)):
            return ConfigOffset(0)
        self._spawn(self._read_on())
        return ConfigOffset(jobs.offset + 1)

    async def _read_on(self) -> None:
        with contextlib.suppress(TopicError, TimeoutError, asyncio.TimeoutError):
            await self._topics.catch_up()
        offset = max(self._topics.jobs.offset, self.state.needed_offset)
        self.feed(ConfigAdvanced(now_ms=now_ms(), config_offset=ConfigOffset(offset)))

    def _on_topics(self) -> None:
        """The jobs topic has something new, is gone, or is read no more."""
        fault = self._topics.fault
        if fault is not None:
            self.fail(fault)
            return
        self._topics_watch.look()
        if self._topics.jobs.offset > self.state.config_offset:
            self.feed(ConfigAdvanced(now_ms=now_ms(), config_offset=self._topics.jobs.offset))

    # ---- endings that are not the machine's

    def _topics_gone(self, topic: str) -> None:
        self._leaving_for = (
            f"the topic {topic!r} of group {self._group_id!r} is gone; was the broker started again without its"
            " data? A worker that starts makes the topics anew if they are missing; jobs have to be submitted again"
        )
        log.error("group %s, worker %s: %s", self._group_id, self._worker, self._leaving_for)
        self.leave("the topics of the group are gone")

    def _end(self, error: str) -> None:
        self._failed = True
        self._stop_driving()
        for task in self._tasks:
            task.cancel()
        try:
            self._listener.stop_tasks(self.state.owned, StopReason.FAILED)
        except Exception:
            log.exception("group %s, worker %s: its tasks were not told to stop", self._group_id, self._worker)
        self._listener.ended(Ended(how=HowEnded.FAILED, error=error))

    def _stop_driving(self) -> None:
        self._driving = False
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _group_id(self) -> str:
        return self.state.settings.group_id

    @property
    def _worker(self) -> WorkerId:
        return self.state.settings.worker
