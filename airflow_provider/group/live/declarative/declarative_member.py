"""Drives one membership in a declarative group.

It carries out the commands that only :mod:`airflow_provider.group.declarative.member.member` has, and feeds the results
back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from airflow_provider.group.declarative.member.events import (
    AssignorsChanged,
    ComputeAssignment,
    HeartbeatAnswered,
    InstallAnswered,
    OnAssignment,
    PrepareAnswered,
    PublishGroup,
    Request,
    RequestFailed,
    SendRequest,
    Started,
    TasksDue,
    TellDelayOver,
)
from airflow_provider.group.declarative.member.member import handle
from airflow_provider.group.declarative.member.saved import save
from airflow_provider.group.declarative.member.state import Assigning, MembershipState, Phase
from airflow_provider.group.declarative.protocol.model import AWAY, LEAVING
from airflow_provider.group.declarative.protocol.units import tasks_of
from airflow_provider.group.declarative.protocol.wire.messages.apis import ReplyBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentResponse,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.group.declarative.requests.request_channel import NoReplyError, RequestChannel
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.live.declarative.worker_assignors import WorkerAssignors
from airflow_provider.group.live.driving import Driving
from airflow_provider.group.live.silence import Silence
from airflow_provider.group.machine.events import Command, ConfigAdvanced, Event, TimerFired
from airflow_provider.group.membership import MembershipListener, MembershipView, Saved
from airflow_provider.kafka.clock import now_ms, wall_ms
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.views.task_progress.progress import needs_running
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.deadlines import wait_at_most
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import ConfigOffset, MemberId, TaskId, Tasks
from airflow_provider.values.saved import CONNECT

log = logging.getLogger(__name__)

_LAST_LOOK_S: Final = 2.0


def is_routine(event: Event, commands: Iterable[Command]) -> bool:
    """Whether this is a heartbeat that goes well, and brings nothing new."""
    well = isinstance(event, HeartbeatAnswered) and not event.reply.error_code and event.reply.assignment is None
    return (well or isinstance(event, TimerFired)) and all(
        isinstance(one, SendRequest) and one.request is Request.HEARTBEAT for one in commands
    )


class DeclarativeMember(Driving[MembershipState]):
    """One membership (:class:`~airflow_provider.group.membership.Membership`).

    :param state: a new :class:`MembershipState`, or a resumed one
    :param assignors: what this member tells the coordinator, and computes for it
    :param opening: the type of the first event, which depends on the state
    :param former: the member that had the worker's name before, if its process has certainly ended
    """

    about = About.JOBS

    def __init__(
        self,
        state: MembershipState,
        channel: RequestChannel,
        topics: GroupTopics,
        listener: MembershipListener,
        assignors: WorkerAssignors,
        *,
        opening: type[Started] = Started,
        former: MemberId | None = None,
    ) -> None:
        super().__init__(state, handle, topics, listener, is_routine=is_routine, patience_s=state.session_ms / 1000)
        self._opening = opening
        self._former = former
        self._channel = channel
        self._assignors = assignors
        self._heartbeat: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._silence = Silence(self._group_id, self._worker)

    # ---- what the worker reports

    def _first_event(self, predecessor: Predecessor) -> Event:
        return self._opening(
            now_ms=now_ms(),
            config_offset=self._topics.jobs.offset,
            predecessor=predecessor,
            assignors=self._said(),
        )

    def learning_progressed(self, progress: Mapping[TaskId, float], failed: Tasks) -> None:
        """Do nothing: nothing is learned in such a group."""

    def leave_soon(self, reason: str) -> None:
        """Do nothing: nobody learns this worker's tasks, so it leaves as any other does."""

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

    def _save(self) -> Saved:
        said = {"returns_ms": self._assignors.returns_ms}
        return {"group_protocol": CONNECT, **said, **save(self.state, now_ms=now_ms(), wall_ms=wall_ms())}

    async def hand_over(self) -> Saved:
        """Hand over when all requests of this process are in the topic. If another process's came before them, the
        coordinator would take these for the member's latest ones.
        """
        saved = await super().hand_over()
        await self._channel.settle()
        return saved

    # ---- events in, commands out

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
            case PublishGroup():
                self._write(self._publish(command.record))
            case _:
                super()._execute(command)

    def _said(self) -> tuple[Assignor, ...]:
        return self._assignors.said(self.state.delay_passed_ms)

    def _say_what_is_new(self) -> None:
        said = self._said()
        if said != self.state.assignors:
            self.feed(AssignorsChanged(now_ms=now_ms(), assignors=said))

    # ---- requests

    def _send(self, command: SendRequest) -> None:
        """Send a request. A heartbeat replaces the one before, whose reply has no effect any more."""
        asking = self._spawn(self._ask(command))
        if command.request is Request.HEARTBEAT:
            if self._heartbeat is not None and self._heartbeat is not asyncio.current_task():
                self._heartbeat.cancel()
            self._heartbeat = asking

    async def _ask(self, command: SendRequest) -> None:
        body = command.body
        if isinstance(body, ConnectGroupHeartbeatRequest) and body.member_epoch == LEAVING:
            body = await self._complete_goodbye(body)
        if self._former is not None:
            await self._leave_for_former(self._former, command.timeout_ms)
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
            self._look_for_due_tasks()

    async def _leave_for_former(self, former: MemberId, timeout_ms: int) -> None:
        """Announce in the name of the former member that it has stopped and will return.

        Otherwise the coordinator keeps its tasks as long as that one's lease may last. After this announcement, which a
        static member makes when it restarts, this member gets all of them immediately. It needs no answer: it is in the
        topic before the next request.
        """
        self._former = None
        goodbye = ConnectGroupHeartbeatRequest(
            group_id=self._group_id, member_id=former, member_epoch=AWAY, instance_id=self._worker
        )
        with contextlib.suppress(NoReplyError):
            await self._channel.ask(goodbye, timeout_s=timeout_ms / 1000)

    async def _complete_goodbye(self, goodbye: ConnectGroupHeartbeatRequest) -> ConnectGroupHeartbeatRequest:
        """Write what other workers have to know, and read it back, so that the last heartbeat says why it leaves."""
        await self._listener.farewell()
        with contextlib.suppress(TopicError, TimeoutError, asyncio.TimeoutError):
            await wait_at_most(_LAST_LOOK_S, self._topics.catch_up())
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
            case _:
                raise AssertionError(f"a member does not ask for {reply}")

    async def _compute(self, command: ComputeAssignment) -> None:
        """Compute a target. If members have departed, read first what they have written of it: the coordinator may not
        know why. If that can't be read in time, their tasks wait.
        """
        if command.prepared.departed:
            with contextlib.suppress(TopicError, TimeoutError, asyncio.TimeoutError):
                await wait_at_most(self.state.session_ms / 1000, self._topics.catch_up())
        self.feed(await self._assignors.compute(command))

    async def _publish(self, record: DeclarativeRecord) -> None:
        """Write the group record. It is for those who watch the group: nothing breaks without it.

        While there are classic workers too, their leader writes it instead, and the next leader relies on that.
        """
        try:
            await self._topics.catch_up()
            known = self._topics.status.group
            if known is None or BRIDGE not in known.members:
                await self._topics.publish_group(record)
        except (TopicError, TimeoutError, asyncio.TimeoutError) as failed:
            log.warning("group %s: the record of epoch %d was not written: %s", self._group_id, record.epoch, failed)

    # ---- the topics

    def _needed_offset(self, reply: ConnectGroupHeartbeatResponse) -> ConfigOffset:
        """How far the jobs topic has to be read to know all assigned tasks.

        Unknown ones are in a part that the coordinator has read and this process has not, so it reads to the end.
        """
        jobs = self._topics.jobs
        if reply.assignment is None:
            return self.state.needed_offset
        if all(jobs.work_of(task) is not None for task in tasks_of(reply.assignment.connectors_and_tasks)):
            return ConfigOffset(0)
        self._spawn(self._read_on())
        return ConfigOffset(jobs.offset + 1)

    def _look_for_due_tasks(self) -> None:
        """Look for assigned tasks that ended here but are due again.

        Mostly such tasks will leave the assignment soon, as they are no longer configured. But they may have been
        configured again without the coordinator noticing the change.
        """
        seen = self._due()
        if seen and self._looking is None:
            self._looking = self._spawn(self._look_again(seen))

    async def _look_again(self, seen: Tasks) -> None:
        """Look again when this worker's own records of the ends have surely been read, as nothing may run twice.

        Records of tasks that end meanwhile may not be read yet; these are checked the next time.
        """
        try:
            await self._topics.catch_up()
            due = self._due() & seen
            if due:
                self.feed(TasksDue(now_ms=now_ms(), tasks=due))
        except (TopicError, TimeoutError, asyncio.TimeoutError) as unread:
            log.debug("tasks that are due again are checked after the next heartbeat: %s", unread)
        finally:
            self._looking = None

    def _due(self) -> Tasks:
        jobs, statuses = self._topics.jobs, self._topics.status.tasks
        ended = self.state.assigned - self.state.owned
        return frozenset(task for task in ended if needs_running(task, jobs, statuses))

    async def _read_on(self) -> None:
        with contextlib.suppress(TopicError, TimeoutError, asyncio.TimeoutError):
            await self._topics.catch_up()
        offset = max(self._topics.jobs.offset, self.state.needed_offset)
        self.feed(ConfigAdvanced(now_ms=now_ms(), config_offset=ConfigOffset(offset)))
