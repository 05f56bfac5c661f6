"""A worker's process in a declarative group: the member machine, and stand-ins for its driver and its tasks."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simulation.clock import LocalClock
from simulation.declarative import invariants
from simulation.declarative.copies import Copies
from simulation.declarative.offers import Offers
from simulation.declarative.wire import Wire

from airflow_provider.group.declarative.member.events import (
    ComputeAssignment,
    HeartbeatAnswered,
    InstallAnswered,
    OnAssignment,
    PrepareAnswered,
    Request,
    RequestFailed,
    Resumed,
    SendRequest,
    Started,
    TasksDue,
    TellDelayOver,
)
from airflow_provider.group.declarative.member.member import handle
from airflow_provider.group.declarative.member.saved import resume, save
from airflow_provider.group.declarative.member.settings import DeclarativeSettings
from airflow_provider.group.declarative.member.state import MembershipState, Phase
from airflow_provider.group.declarative.protocol.model import LEAVING
from airflow_provider.group.declarative.protocol.units import tasks_of
from airflow_provider.group.declarative.protocol.wire.messages.apis import MemberRequestBody, ReplyBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupPrepareAssignmentResponse,
)
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import (
    ArmTimer,
    Command,
    ConfigAdvanced,
    Event,
    Fail,
    LeaveRequested,
    StartTasks,
    StopTasks,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.values.model import ConfigOffset, MemberId, TaskId, Tasks

if TYPE_CHECKING:
    from simulation.declarative.world import World

TOGETHER_MS = 10


class Process:
    """One process of a worker.

    :param stop_ms: the range of times that its tasks take to stop
    :ivar touched: whether a fault may cost it its membership
    """

    def __init__(self, world: World, settings: DeclarativeSettings, name: str, *, stop_ms: tuple[int, int]) -> None:
        self.world = world
        self.name = name
        self.settings = settings
        self.rng = random.Random(f"{world.seed}/{name}")
        drift = world.clock_drift_ppm
        self.clock = LocalClock(
            world.clock, drift_ppm=self.rng.randint(-drift, drift), offset=self.rng.randint(0, 10_000_000)
        )
        self._wall_skew_ms = self.rng.randint(-world.wall_skew_ms, world.wall_skew_ms)
        self.state = MembershipState(settings=settings, member_id=MemberId(f"{name}-id"))
        self.alive = True
        self.cut_off = False
        self.touched = False
        self.jobs_offset = 0
        self.copies = Copies(self, stop_ms)
        self.offers = Offers(self)
        self._wire = Wire(self)
        self._asleep_until = 0
        self._timer_at: int | None = None
        self._inbox: deque[Callable[[], Event]] = deque()
        self._feeding = False

    # ---- what others see

    @property
    def worker(self) -> str:
        return self.settings.worker

    @property
    def member_id(self) -> MemberId:
        return self.state.member_id

    @property
    def now(self) -> int:
        return self.clock.now

    @property
    def wall(self) -> int:
        return self.world.wall + self._wall_skew_ms

    @property
    def asleep(self) -> bool:
        return self.world.clock.now < self._asleep_until

    @property
    def in_group(self) -> bool:
        return self.alive and not self.state.phase.ended

    @property
    def lease_is_valid(self) -> bool:
        return self.state.lease_until is not None and self.now < self.state.lease_until

    @property
    def reader(self) -> bytes:
        return self._wire.reader

    # ---- its life

    def start(self, predecessor: Predecessor) -> None:
        self.jobs_offset = self.world.jobs.offset
        offset, said = self.world.jobs.offset, self.offers.said()
        self.feed(lambda: Started(now_ms=self.now, config_offset=offset, predecessor=predecessor, assignors=said))

    def save(self) -> dict[str, Any]:
        saved: dict[str, Any] = json.loads(json.dumps(save(self.state, now_ms=self.now, wall_ms=self.world.wall)))
        return saved

    def go_on(self, saved: dict[str, Any], predecessor: Predecessor) -> None:
        """Take over the membership that another process of this worker saved on the same host."""
        self.jobs_offset = self.world.jobs.offset
        self.state = resume(saved, self.settings, now_ms=self.now, wall_ms=self.world.wall)
        offset, said = self.world.jobs.offset, self.offers.said()
        self.feed(lambda: Resumed(now_ms=self.now, config_offset=offset, predecessor=predecessor, assignors=said))

    @property
    def can_hand_over(self) -> bool:
        return self.in_group and not self.asleep and self.state.phase in (Phase.JOINING, Phase.STABLE)

    @property
    def unwritten_ms(self) -> int:
        """The time until all its requests are written."""
        return self._wire.unwritten_ms

    def kill(self) -> None:
        self.alive = False
        self.copies.end()
        self._inbox.clear()

    def sleep(self, ms: int) -> None:
        """The process and its tasks stand still (SIGSTOP, swapping, a suspended host)."""
        self._asleep_until = max(self._asleep_until, self.world.clock.now + ms)
        self.touched = True
        self.world.clock.after(ms, self._drain)

    def cut(self) -> None:
        self.cut_off = self.touched = True

    def leave(self) -> None:
        self.feed(lambda: LeaveRequested(now_ms=self.now, reason="asked"))

    def finish(self, task: TaskId) -> None:
        """The task finishes, and everybody knows."""
        self.copies.remove(task)
        self.feed(lambda: TasksFinished(now_ms=self.now, tasks=frozenset({task})))

    def drop(self, task: TaskId) -> None:
        """The task stops without being told to."""
        self.copies.remove(task)
        self.stopped(frozenset({task}))

    def stopped(self, tasks: Tasks) -> None:
        self.feed(lambda: TasksStopped(now_ms=self.now, tasks=tasks))

    def read_jobs(self) -> None:
        """It reads the news in the jobs topic."""
        self.jobs_offset = self.world.jobs.offset
        offset = ConfigOffset(max(self.jobs_offset, self.state.needed_offset))
        self.feed(lambda: ConfigAdvanced(now_ms=self.now, config_offset=offset))

    # ---- replies

    def nothing_came(self, seq: int, request: Request) -> None:
        self.feed(lambda: RequestFailed(now_ms=self.now, seq=seq, request=request, cause="no reply"))

    def replied(self, reply: Any) -> None:
        self._wire.replied(reply)

    def answered(self, seq: int, sent_at_ms: int, body: ReplyBody) -> None:
        if not isinstance(body, ConnectGroupHeartbeatResponse):
            kind = PrepareAnswered if isinstance(body, ConnectGroupPrepareAssignmentResponse) else InstallAnswered
            self.feed(lambda: kind(now_ms=self.now, seq=seq, sent_at_ms=sent_at_ms, reply=body))  # type: ignore[arg-type]
            return
        self.feed(
            lambda: HeartbeatAnswered(
                now_ms=self.now,
                seq=seq,
                sent_at_ms=sent_at_ms,
                reply=body,
                needed_offset=self._needed_offset(body),
            )
        )

    def _needed_offset(self, reply: ConnectGroupHeartbeatResponse) -> ConfigOffset:
        if reply.assignment is None:
            return self.state.needed_offset
        if tasks_of(reply.assignment.connectors_and_tasks) <= self.world.jobs.known_at(self.jobs_offset):
            return ConfigOffset(0)
        self.world.clock.after(self.rng.randint(1, 100), self.read_jobs)
        return ConfigOffset(self.jobs_offset + 1)

    # ---- events in, commands out

    def feed(self, event: Callable[[], Event]) -> None:
        """Handle an event, after those that wait, when the process is awake."""
        if not self.alive:
            return
        self._inbox.append(event)
        self._drain()

    def _drain(self) -> None:
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._inbox and self.alive and not self.asleep:
                self._step(self._inbox.popleft()())
        finally:
            self._feeding = False
        if self.alive and self.state.phase.ended and not self.copies.running:
            self.world.ended(self)

    def _step(self, event: Event) -> None:
        before = self.state
        self.state, commands = handle(before, event)
        self.world.note(lambda: f"{self.name:8} {_short(event)}")
        self.state.validate()
        invariants.a_members_epoch_goes_back_only_to_join(self, before)
        invariants.nothing_is_revoked_and_started_together(self, commands)
        if before.phase is Phase.STABLE and self.state.phase is Phase.JOINING:
            self.world.expelled(self)
        for command in commands:
            self._carry_out(command)
        if isinstance(event, HeartbeatAnswered) and self.state.phase is Phase.STABLE and not self.state.attempts:
            self.offers.say_what_is_new()
            if self._due():
                self.world.clock.after(self.rng.randint(1, 100), self._look_again)

    def _due(self) -> Tasks:
        """Tasks that ended here and are configured again, while the coordinator has noticed neither."""
        return (self.state.assigned - self.state.owned) & self.world.jobs.configured

    def _look_again(self) -> None:
        due = self._due()
        if due:
            self.feed(lambda: TasksDue(now_ms=self.now, tasks=due))

    def _carry_out(self, command: Command) -> None:
        match command:
            case SendRequest():
                self._send(command)
            case StartTasks():
                self.world.note(lambda: f"{self.name:8}   starts {names(command.tasks)} in {command.epoch}")
                self.copies.start(command.tasks, command.epoch)
            case StopTasks():
                self.world.note(lambda: f"{self.name:8}   stops {names(command.tasks)}: {command.reason.value}")
                self.copies.stop(command.tasks, command.reason)
            case ArmTimer():
                self._arm(command.at_ms)
            case ComputeAssignment():
                self.offers.compute(command)
            case OnAssignment():
                self.offers.on_assignment(command.assignment)
            case TellDelayOver():
                self.offers.say_what_is_new()
            case Fail():
                self.world.note(f"{self.name:8}   fails: {command.error}")
                invariants.nobody_fails(self, command.error)

    def _send(self, command: SendRequest) -> None:
        body = command.body
        if isinstance(body, ConnectGroupHeartbeatRequest):
            invariants.a_heartbeat_says_all_that_runs(self, body)
            if body.member_epoch == LEAVING:
                body = replace(body, client_assignors=self.offers.said() or None)
        self.world.note(lambda: f"{self.name:8}   asks {_said(body)}")
        self._wire.send(command, body)

    def _arm(self, at_ms: int) -> None:
        self._timer_at = at_ms
        due = (at_ms // TOGETHER_MS + 1) * TOGETHER_MS
        self.world.clock.after(max(0, self.clock.until(due)), lambda: self._fire(at_ms))

    def _fire(self, at_ms: int) -> None:
        if self._timer_at == at_ms:
            self._timer_at = None
            self.feed(lambda: TimerFired(now_ms=self.now))


def names(tasks: Tasks) -> str:
    return " ".join(str(task) for task in sorted(tasks)) or "nothing"


def _short(event: Event) -> str:
    if isinstance(event, HeartbeatAnswered):
        reply = event.reply
        told = "" if reply.assignment is None else f", has {names(tasks_of(reply.assignment.connectors_and_tasks))}"
        return f"hears {event.seq}: error {reply.error_code}, epoch {reply.member_epoch}{told} ({reply.error_message})"
    if isinstance(event, TasksStopped | TasksFinished):
        return f"{type(event).__name__} {names(event.tasks)}"
    return type(event).__name__


def _said(body: MemberRequestBody) -> str:
    if not isinstance(body, ConnectGroupHeartbeatRequest):
        return f"{type(body).__name__} in epoch {body.member_epoch}"
    owned = body.connectors_and_tasks
    return f"as {body.member_epoch}, owns {'?' if owned is None else names(tasks_of(owned))}"
