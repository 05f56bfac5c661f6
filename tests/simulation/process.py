"""A worker's process in the simulation: the member machine, and what its driver and its runner would do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from simulation.wire import Wire

from airflow_provider.membership.errors import KafkaErrorCode
from airflow_provider.membership.events import (
    ArmTimer,
    AssignmentComputed,
    Command,
    ConfigAdvanced,
    Event,
    Fail,
    HeartbeatAnswered,
    LeaveRequested,
    PerformAssignment,
    Predecessor,
    PublishAssignment,
    PublishGroup,
    RebalanceWanted,
    RecordRead,
    Resumed,
    SendHeartbeat,
    Started,
    StartTasks,
    StopTasks,
    TasksFinished,
    TasksStopped,
    TimerFired,
    Warn,
)
from airflow_provider.membership.leader import Call, lead
from airflow_provider.membership.member import handle
from airflow_provider.membership.model import ConfigOffset, TaskId, Tasks, WorkerId
from airflow_provider.membership.record import GroupRecord, newer
from airflow_provider.membership.saved import resume, save
from airflow_provider.membership.settings import MemberSettings
from airflow_provider.membership.state import MemberState, Phase

if TYPE_CHECKING:
    from simulation.world import World


class Process:
    """One process of a worker. Its monotonic clock is not that of any other process.

    :param forgetful: leads without the group record, as Connect's leader does
    """

    def __init__(self, world: World, settings: MemberSettings, name: str, *, forgetful: bool = False) -> None:
        self.world = world
        self.name = name
        self.settings = settings
        self.forgetful = forgetful
        self.state = MemberState(settings=settings)
        self.alive = True
        self.cut_off = False
        self.overslept = False
        self.reads_jobs = True
        self.running: dict[TaskId, int] = {}
        self.config_offset = ConfigOffset(0)
        self._clock_offset = world.rng.randint(0, 10_000_000)
        self._read: GroupRecord | None = None
        self._led: GroupRecord | None = None
        self._asleep_until = 0
        self._timer_at: int | None = None
        self._looks = False
        self._wire = Wire(self)

    # ---- what others see

    @property
    def worker(self) -> WorkerId:
        return self.settings.worker

    @property
    def now(self) -> int:
        return self.world.clock.now + self._clock_offset

    @property
    def asleep(self) -> bool:
        return self.world.clock.now < self._asleep_until

    @property
    def may_write(self) -> Tasks:
        """The tasks that run here and whose fence would let them write."""
        if not self.alive or self.asleep:
            return frozenset()
        if self.overslept and (self.state.lease_until is None or self.now >= self.state.lease_until):
            return frozenset()
        return frozenset(self.running)

    # ---- its life

    def start(self, predecessor: Predecessor) -> None:
        self.config_offset = self.world.jobs_offset
        self.feed(Started(now_ms=self.now, config_offset=self.config_offset, predecessor=predecessor))
        self.read_status()

    def go_on(self, saved: dict[str, Any]) -> None:
        """Take over the membership that another process of this worker saved."""
        self.config_offset = self.world.jobs_offset
        self.state = resume(saved, self.settings, now_ms=self.now, wall_ms=self.world.wall)
        self.feed(Resumed(now_ms=self.now, config_offset=self.config_offset))
        self.read_status()

    def hand_over(self) -> dict[str, Any]:
        """End, after saving the membership for another process. Attached tasks end with this one."""
        saved: dict[str, Any] = json.loads(json.dumps(save(self.state, now_ms=self.now, wall_ms=self.world.wall)))
        self.kill()
        return saved

    @property
    def can_hand_over(self) -> bool:
        """A process that is leaving sees it through itself."""
        return self.alive and not self.asleep and not self.state.phase.ended and self.state.phase is not Phase.LEAVING

    def reconnect(self) -> None:
        self.cut_off = False

    def kill(self) -> None:
        self.alive = False
        self.running.clear()

    def sleep(self, ms: int) -> None:
        """The process stands still (SIGSTOP, swapping, a suspended host); its tasks with it."""
        self._asleep_until = max(self._asleep_until, self.world.clock.now + ms)
        self.overslept = True

    def leave(self, reason: str = "told to") -> None:
        self.feed(LeaveRequested(now_ms=self.now, reason=reason))

    # ---- events in

    def feed(self, event: Event) -> None:
        if not self.alive:
            return
        before = self.state.phase
        self.state, commands = handle(self.state, event)
        self.state.validate()
        worth_telling = [command for command in commands if not isinstance(command, (ArmTimer, SendHeartbeat))]
        if worth_telling or not _humdrum(event):
            self.world.note(f"{self.name:8} {before.value}: {_short(event)} -> {self.state.phase.value}")
        for command in worth_telling:
            self.world.note(f"{self.name:8}     {_short(command)}")
        for command in commands:
            self._execute(command)
        self._look_later()

    def deliver(self, make: Any) -> None:
        """Feed what ``make()`` gives, now or when the process wakes."""
        if self.asleep:
            self.world.clock.after(self._asleep_until - self.world.clock.now, lambda: self.deliver(make))
        elif self.alive:
            self.feed(make())

    def read_jobs(self, offset: ConfigOffset) -> None:
        if self.reads_jobs and offset > self.config_offset:
            self.config_offset = offset
            self.deliver(lambda: ConfigAdvanced(now_ms=self.now, config_offset=offset))

    def read_status(self) -> None:
        record = self.world.record
        if self.alive and record is not None and record is not self._read:
            self._read = record
            self.deliver(lambda: RecordRead(now_ms=self.now, record=record, age_ms=self.world.wall - record.at_ms))

    # ---- commands out

    def _execute(self, command: Command) -> None:
        match command:
            case ArmTimer():
                self._arm(command.at_ms)
            case StartTasks():
                self._start(command.tasks)
            case StopTasks():
                self._stop(command.tasks)
            case PerformAssignment():
                self._assign(command)
            case PublishGroup():
                self._led = command.record
                self.world.publish(command.record)
            case Fail() | Warn() | PublishAssignment():
                pass
            case _:
                self._wire.send(command)

    def _arm(self, at_ms: int) -> None:
        self._timer_at = at_ms

        def fire() -> None:
            if self.asleep:
                self.world.clock.after(self._asleep_until - self.world.clock.now, fire)
            elif self.alive and self._timer_at == at_ms:
                self._timer_at = None
                self.feed(TimerFired(now_ms=self.now))

        self.world.clock.after(at_ms - self.now, fire)

    def _start(self, tasks: Tasks) -> None:
        done = tasks & self.world.finished
        for task in tasks - done:
            assert task not in self.running, f"{self.name} starts {task}, which it already runs"
            self.running[task] = self.world.clock.now
        self.world.check()
        if done:
            self.world.clock.after(0, lambda: self.deliver(lambda: TasksFinished(now_ms=self.now, tasks=done)))

    def _stop(self, tasks: Tasks) -> None:
        def stopped() -> None:
            if self.asleep:
                self.world.clock.after(self._asleep_until - self.world.clock.now, stopped)
            elif self.alive:
                for task in tasks:
                    self.running.pop(task, None)
                self.feed(TasksStopped(now_ms=self.now, tasks=tasks))

        ran = any(task in self.running for task in tasks)
        self.world.clock.after(self.world.stop_ms() if ran else 0, stopped)

    def finish(self, task: TaskId) -> None:
        """The task comes to its own end."""
        self.running.pop(task, None)
        self.deliver(lambda: TasksFinished(now_ms=self.now, tasks=frozenset({task})))

    def _assign(self, command: PerformAssignment) -> None:
        def compute() -> None:
            if not self.alive:
                return
            if self.asleep:
                self.world.clock.after(self._asleep_until - self.world.clock.now, compute)
                return
            self.read_jobs(self.world.jobs_offset)
            self.read_status()
            last = self._led if self.forgetful else newer(command.last_record, self.world.record)
            verdict = lead(
                Call(
                    generation=command.generation,
                    protocol=command.protocol,
                    leader=command.leader,
                    last_completed=command.last_completed,
                    members=command.members,
                    configured=self.world.configured_at(self.config_offset),
                    config_offset=self.config_offset,
                    last_record=last,
                    policy=self.world.policy,
                    now_ms=self.world.wall,
                    reason=command.reason,
                )
            )
            self.feed(
                AssignmentComputed(
                    now_ms=self.now, seq=command.seq, assignments=verdict.assignments, record=verdict.record
                )
            )

        self.world.clock.after(self.world.network.latency(), compute)

    # ---- what a leader watches

    def _look_later(self) -> None:
        if not self._looks and self.state.phase is Phase.STABLE and self.state.is_leader:
            self._looks = True
            self.world.clock.after(50, self._look)

    def _look(self) -> None:
        self._looks = False
        state = self.state
        if not self.alive or self.asleep or state.phase is not Phase.STABLE or not state.is_leader:
            return
        reason = self.world.reason_to_rebalance(state, self.config_offset)
        if reason is not None:
            self.feed(RebalanceWanted(now_ms=self.now, reason=reason))


def _humdrum(event: Event) -> bool:
    """Nobody who reads a story wants to hear of it."""
    return isinstance(event, TimerFired) or (
        isinstance(event, HeartbeatAnswered) and event.error is KafkaErrorCode.NONE
    )


def _short(thing: Event | Command) -> str:
    """An event or command in a line of the story."""
    hidden = {"now_ms", "metadata", "protocols", "assignments", "members", "record", "assignment"}
    fields = {name: getattr(thing, name) for name in thing.__dataclass_fields__ if name not in hidden}
    shown = ", ".join(f"{name}={_value(value)}" for name, value in fields.items())
    return f"{type(thing).__name__}({shown})"


def _value(value: Any) -> str:
    if isinstance(value, frozenset):
        return "{" + " ".join(sorted(map(str, value))) + "}"
    return str(getattr(value, "value", value))
