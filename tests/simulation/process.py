"""A worker's process in the simulation: the member machine, and stand-ins for its driver and runner."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from simulation import invariants, learner_invariants
from simulation.attached import Attached
from simulation.clock import LocalClock
from simulation.leading import Watch, lead_round
from simulation.leave_request import Asked
from simulation.wire import Wire

from airflow_provider.assignment.model import Absence
from airflow_provider.group.classic.leader.leader import LeaderAnswer
from airflow_provider.group.classic.member.events import (
    AssignmentComputed,
    HeartbeatAnswered,
    LearnersReady,
    MayLeave,
    PerformAssignment,
    PublishGroup,
    RebalanceHinted,
    RebalanceWanted,
    RecordRead,
    Resumed,
    SendHeartbeat,
    SendLeave,
    Started,
    StartLearning,
    StopLearning,
)
from airflow_provider.group.classic.member.member import handle
from airflow_provider.group.classic.member.saved import resume, save
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.live.classic.ready_learners import ReadyLearners
from airflow_provider.group.machine.events import (
    ArmTimer,
    Command,
    ConfigAdvanced,
    Event,
    Fail,
    LeaveRequested,
    PublishAssignment,
    StartTasks,
    StopTasks,
    TimerFired,
    Warn,
)
from airflow_provider.state.records.status_topic.worker_status import Lesson, WorkerPhase, WorkerStatus
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.rounds.unchanged_rounds import hold_back_ms
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import NO_TASKS, ConfigOffset, TaskId, WorkerId

if TYPE_CHECKING:
    from simulation.world import World

FAREWELL_MS = 2_000
"""The longest time that a leaving worker waits until its record with the reason is stored."""


class Process:
    """One process of a worker, with a monotonic clock of its own.

    :param forgetful: whether it leads without the group record, like Connect's leader
    """

    def __init__(self, world: World, settings: MemberSettings, name: str, *, forgetful: bool = False) -> None:
        self.world = world
        self.name = name
        self.settings = settings
        self.forgetful = forgetful
        self.rng = random.Random(f"{world.seed}/{name}")
        self.slots = random.Random(f"{world.seed}/{name}/slots").choice(world.slots)
        self.state = MemberState(settings=settings)
        self.alive = True
        self.cut_off = False
        self.overslept = False
        self.touched = False
        self.reads_jobs = True
        self.config_offset = ConfigOffset(0)
        self.status = world.status.snapshot()
        drift, skew = world.clock_drift_ppm, world.wall_skew_ms
        self.clock = LocalClock(
            world.clock, drift_ppm=self.rng.randint(-drift, drift), offset=self.rng.randint(0, 10_000_000)
        )
        self._wall_skew = self.rng.randint(-skew, skew)
        self._read: ClassicRecord | None = None
        self._led: ClassicRecord | None = None
        self._asleep_until = 0
        self._hushed_until = 0
        self._said_at = 0
        self.awaited_ms = 0
        self._timer_at: int | None = None
        self._looks = False
        self._inbox: deque[Event] = deque()
        self._ready_learners = ReadyLearners()
        self._feeding = False
        self._watch = Watch(self)
        self._wire = Wire(self)
        self.asked = Asked(self)
        self.tasks = Attached(self)
        self.absence = Absence(returns_ms=random.Random(f"{world.seed}/{name}/returns").choice(world.returns_ms))

    # ---- what others see

    @property
    def worker(self) -> WorkerId:
        return self.settings.worker

    @property
    def now(self) -> int:
        return self.clock.now

    @property
    def wall(self) -> int:
        return self.world.wall + self._wall_skew

    @property
    def asleep(self) -> bool:
        return self.world.clock.now < self._asleep_until

    @property
    def in_group(self) -> bool:
        """Whether it is in the group or wants to be."""
        return self.alive and not self.state.phase.ended

    @property
    def lease_over(self) -> bool:
        return self.state.lease_until is None or self.now >= self.state.lease_until

    @property
    def jobs(self) -> JobsSnapshot:
        """The jobs topic as far as it has read it."""
        return self.world.jobs.at(self.config_offset)

    @property
    def running(self) -> Mapping[TaskId, int]:
        """The running tasks, with their start in the world's time."""
        return self.tasks.since

    # ---- its life

    def start(self, predecessor: Predecessor) -> None:
        self.config_offset = self.world.jobs.offset
        self.feed(Started(now_ms=self.now, config_offset=self.config_offset, predecessor=predecessor))
        self.read_status()
        self.say_of_itself(WorkerPhase.JOINING)

    def go_on(self, saved: dict[str, Any], predecessor: Predecessor) -> None:
        """Take over the membership that another process of this worker saved."""
        self.config_offset = self.world.jobs.offset
        self.state = resume(saved, self.settings, now_ms=self.now, wall_ms=self.wall)
        self.world.owns(self, NO_TASKS, self.state.owned)
        self.feed(Resumed(now_ms=self.now, config_offset=self.config_offset, predecessor=predecessor))
        self.read_status()
        self.say_of_itself(WorkerPhase.STABLE)

    def hand_over(self) -> dict[str, Any]:
        """Save the membership for another process and end; attached tasks end with this process."""
        saved: dict[str, Any] = json.loads(json.dumps(save(self.state, now_ms=self.now, wall_ms=self.wall)))
        self.kill()
        return saved

    @property
    def can_hand_over(self) -> bool:
        """A process that is leaving finishes that itself."""
        return self.in_group and not self.asleep and self.state.phase is not Phase.LEAVING

    def reconnect(self) -> None:
        self.cut_off = False

    def cut(self) -> None:
        self.cut_off = self.touched = True

    def kill(self) -> None:
        self.alive = False
        self.tasks.end_with_process()
        self.world.owns(self, self.state.owned, NO_TASKS)

    def sleep(self, ms: int) -> None:
        """The process and its tasks stand still (SIGSTOP, swapping, a suspended host)."""
        self._asleep_until = max(self._asleep_until, self.world.clock.now + ms)
        self.overslept = self.touched = True
        self.tasks.in_trouble()

    def hush(self, ms: int) -> None:
        """Its records for the status topic are stuck for this time."""
        self.tasks.in_trouble()
        self._hushed_until = max(self._hushed_until, self.world.clock.now + ms)

    @property
    def hushed(self) -> bool:
        return self.world.clock.now < self._hushed_until

    def see_status(self) -> None:
        """It reads the workers' records that are there by now."""
        if self.reads_jobs:
            self.status = self.world.status.snapshot()

    def leave(self, absence: Absence | None = None, reason: str = "told to") -> None:
        """:param absence: what its record says about its absence"""
        if absence is not None:
            self.absence = absence
            self.say_of_itself(WorkerPhase.STOPPING)
        self.feed(LeaveRequested(now_ms=self.now, reason=reason))

    # ---- events in

    def feed(self, event: Event) -> None:
        """Handle an event, after those that are being handled."""
        self._inbox.append(event)
        if self._feeding:
            return
        self._feeding = True
        try:
            while self._inbox:
                self._step(self._inbox.popleft())
        finally:
            self._feeding = False

    def _step(self, event: Event) -> None:
        if not self.alive:
            return
        self._hear_of_learners()
        before = self.state
        after, commands = handle(before, event)
        if after is not before:
            after.validate()
            self.state = after
        if after.owned is not before.owned:
            self.world.owns(self, before.owned, after.owned)
        if after.phase is Phase.LEFT and before.phase is not Phase.LEFT and self.absence.left is not None:
            self.say_of_itself(WorkerPhase.LEFT)
        if after.epoch != before.epoch:
            invariants.epochs_only_grow(self.name, before.epoch, after.epoch)
        if self.overslept and not self.asleep:
            self._recover()
        worth_telling = [command for command in commands if not isinstance(command, (ArmTimer, SendHeartbeat))]
        if worth_telling or not _humdrum(event):
            self.world.note(_Turn(self.name, before.phase, event, after.phase, worth_telling))
        if (after.last_completed, after.last_leader) != (before.last_completed, before.last_leader):
            self.tasks.note_belated(before)
        for command in commands:
            self._execute(command)
        self._look_later()
        self.asked.look_later()

    def _hear_of_learners(self) -> None:
        """As in ``group/live/classic/classic_member.py``: before anything that may make it join."""
        lessons = self.state.lessons
        if not lessons.learned or self.state.phase is Phase.INITIAL:
            return
        ready = self._ready_learners.of(lessons.learned, self.status)
        if ready != lessons.known_ready:
            self.state, commands = handle(self.state, LearnersReady(now_ms=self.now, tasks=ready))
            assert not any(commands)

    def _recover(self) -> None:
        """A process that slept counts as any other once it has a lease that it can't overrun."""
        until = self.state.lease_until
        safe = until is not None and self.now < until - self.settings.lease_margin_ms
        self.overslept = bool(self.running) and not safe

    def deliver(self, make: Callable[[], Event]) -> None:
        """Feed the event of ``make()``, now or when the process wakes."""
        self.when_awake(lambda: self.feed(make()))

    def when_awake(self, action: Callable[[], None]) -> None:
        if self.asleep:
            self.world.clock.after(self._asleep_until - self.world.clock.now, lambda: self.when_awake(action))
        elif self.alive:
            action()

    def say(self, arrive: Callable[[], None]) -> None:
        """Write to the status topic, one record after the other. Stuck records are lost when the process ends."""
        clock, latency = self.world.clock, self.world.network.latency(self.rng)
        at = max(clock.now + latency, self._hushed_until, self._said_at)
        stuck = at > clock.now + latency
        self._said_at = at
        clock.after(at - clock.now, lambda: arrive() if self.alive or not stuck else None)

    def say_of_itself(self, phase: WorkerPhase, stored: Callable[[], None] | None = None) -> None:
        """The worker's own record."""
        state = self.state
        self.awaited_ms = self.tasks.awaits_own_record_since_ms
        said = WorkerStatus(
            worker=self.worker,
            state=phase,
            epoch=state.epoch or (self._read.epoch if self._read else state.epoch),
            slots=self.asked.slots,
            owned=state.owned,
            running=self.tasks.active,
            process=self.name,
            at_ms=self.wall,
            member_id=state.member_id,
            left=self.absence.left,
            returns_ms=self.absence.returns_ms,
            learning=tuple(
                Lesson(task, far, far >= self.settings.ready_from) for task, far in sorted(self.tasks.learning.items())
            ),
            leaves_soon=self.asked.leaves_soon,
        )

        def arrive() -> None:
            self.world.worker_written(said)
            self.when_awake(self.tasks.own_record_read)
            if stored is not None:
                self.when_awake(stored)

        self.say(arrive)

    def say_again(self) -> None:
        """Write the worker's record again: something besides the phase has changed."""
        if self.in_group and self.state.phase is not Phase.LEAVING:
            self.say_of_itself(WorkerPhase.STABLE if self.state.epoch else WorkerPhase.JOINING)

    @property
    def has_been_heard(self) -> bool:
        """Whether all that it wrote to the status topic has arrived."""
        return self.world.clock.now > self._said_at

    def read_jobs(self, offset: ConfigOffset) -> None:
        if self.reads_jobs and offset > self.config_offset:
            self.config_offset = offset
            self.deliver(lambda: ConfigAdvanced(now_ms=self.now, config_offset=offset))
            self.when_awake(self.tasks.read)

    def read_jobs_again(self) -> None:
        self.reads_jobs = True
        self.when_awake(self.see_status)
        self.read_jobs(self.world.jobs.offset)

    def read_status(self) -> None:
        record = self.world.record
        if self.alive and record is not None and record is not self._read:
            self._read = record
            self.deliver(lambda: RecordRead(now_ms=self.now, record=record, age_ms=self.wall - record.at_ms))

    def hear_hint(self) -> None:
        """It reads a record that hints at a rebalance, and may not notice that, or twice."""
        for _ in range(self.world.network.hints(self.rng)):
            self.deliver(lambda: RebalanceHinted(now_ms=self.now))

    # ---- commands out

    def _execute(self, command: Command) -> None:
        match command:
            case ArmTimer():
                self._arm(command.at_ms)
            case StartTasks():
                self.tasks.start(command.tasks, command.epoch)
            case StopTasks():
                self._check_stop(command)
                self.tasks.stop(command.tasks, command.reason)
            case StartLearning() | StopLearning() | MayLeave():
                self._learn(command)
            case PerformAssignment():
                self._assign(command)
            case PublishGroup():
                self._led = command.record
                self.say(lambda: self.world.group_written(command.record))
            case PublishAssignment():
                self.tasks.advance(command.epoch)
                self.say_of_itself(WorkerPhase.STABLE)
            case SendLeave():
                self._leave_when_heard(command)
            case Fail() | Warn():
                pass
            case _:
                self._wire.send(command)

    def _learn(self, command: StartLearning | StopLearning | MayLeave) -> None:
        match command:
            case StartLearning():
                self.tasks.learn(command.tasks)
            case StopLearning():
                self.tasks.stop_learning(command.tasks)
            case MayLeave():
                self.asked.may_leave()

    def _check_stop(self, command: StopTasks) -> None:
        rounds = self.world.rounds
        invariants.untouched_members_stop_only_what_is_revoked(self, command, rounds)
        if command.reason is StopReason.LEARNED:
            done = (self.state.last_completed, self.state.last_leader)
            told = (each for each in reversed(rounds) if (each.seen.generation, each.seen.leader_member) == done)
            learner_invariants.only_learned_tasks_are_stopped_before_a_round(self, command.tasks, next(told, None))

    def _leave_when_heard(self, command: SendLeave) -> None:
        """Its record about its absence is written first, if that succeeds in time."""
        wait_ms = min(self._said_at - self.world.clock.now, FAREWELL_MS)
        if wait_ms <= 0:
            self._wire.send(command)
        else:
            self.world.clock.after(wait_ms, lambda: self.when_awake(lambda: self._wire.send(command)))

    def _arm(self, at_ms: int) -> None:
        self._timer_at = at_ms

        def fire() -> None:
            if self._timer_at == at_ms:
                self.when_awake(due)

        def due() -> None:
            if self._timer_at == at_ms:
                self._timer_at = None
                self.feed(TimerFired(now_ms=self.now))

        self.world.clock.after(self.clock.until(at_ms), fire)

    def _assign(self, command: PerformAssignment) -> None:
        def compute() -> None:
            self.read_jobs(self.world.jobs.offset)
            self.read_status()
            self.status = self.world.status.snapshot()
            computed = lead_round(self, command, self._led)
            unchanged = computed.record.unchanged if computed.record else 0
            brake = self.clock.until(self.now + hold_back_ms(unchanged, self.settings.session_timeout_ms))
            self.world.clock.after(brake, lambda: self.deliver(lambda: answer(computed)))

        def answer(computed: LeaderAnswer) -> Event:
            return AssignmentComputed(
                now_ms=self.now, seq=command.seq, assignments=computed.assignments, record=computed.record
            )

        self.world.clock.after(self.world.network.latency(self.rng), lambda: self.when_awake(compute))

    # ---- the leader's watch

    def _look_later(self) -> None:
        if not self._looks and self.state.phase is Phase.STABLE and self.state.is_leader:
            self._looks = True
            self.world.clock.after(50, self._look)

    def _look(self) -> None:
        self._looks = False
        state = self.state
        if not self.alive or self.asleep or state.phase is not Phase.STABLE or not state.is_leader:
            return
        reason = self._watch.reason()
        if reason is not None:
            self.feed(RebalanceWanted(now_ms=self.now, reason=reason))


def _humdrum(event: Event) -> bool:
    """Whether the story leaves it out as routine."""
    return isinstance(event, (TimerFired, RebalanceHinted)) or (
        isinstance(event, HeartbeatAnswered) and event.error is KafkaErrorCode.NONE
    )


class _Turn(NamedTuple):
    """The effect of an event, as the story tells it."""

    name: str
    before: Phase
    event: Event
    after: Phase
    commands: list[Command]

    def __str__(self) -> str:
        told = f"{self.name:8} {self.before.value}: {_short(self.event)} -> {self.after.value}"
        return "\n".join([told, *(f"         {self.name:8}     {_short(command)}" for command in self.commands)])


def _short(thing: Event | Command) -> str:
    """An event or command in a line of the story."""
    hidden = {"now_ms", "last_record", "metadata", "protocols", "assignments", "members", "record", "assignment"}
    fields = {name: getattr(thing, name) for name in thing.__dataclass_fields__ if name not in hidden}
    shown = ", ".join(f"{name}={_value(value)}" for name, value in fields.items())
    return f"{type(thing).__name__}({shown})"


def _value(value: Any) -> str:
    if isinstance(value, frozenset):
        return "{" + " ".join(sorted(map(str, value))) + "}"
    return str(getattr(value, "value", value))
