"""Actions on a group, as values, so that a history can be written down, cut down and played again.

An action names what it does to which worker and uses no random numbers, so it means the same whatever else is left out
of a history. Where it does not apply (its worker is not there), nothing happens, and it is not counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

from simulation.group import GroupState
from simulation.network import Faults
from simulation.process import Process
from simulation.world import World

from airflow_provider.assignment.model import Absence
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.values.model import ConnectProtocol, TaskId, planner_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(ABC):
    """:param after_ms: the time since the action before it"""

    after_ms: int

    @abstractmethod
    def apply(self, world: World) -> bool:
        """:return: whether it applied"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnWorker(Action):
    """An action on a worker in the group."""

    worker: str

    def apply(self, world: World) -> bool:
        process = world.live.get(self.worker)
        return process is not None and self.befall(world, process)

    @abstractmethod
    def befall(self, world: World, process: Process) -> bool: ...


# ---- workers come and go


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(Action):
    worker: str
    protocol: ConnectProtocol = ConnectProtocol.SESSIONED

    def apply(self, world: World) -> bool:
        if self.worker in world.live or self.worker in world.expected:
            return False
        world.start(self.worker, protocol=self.protocol)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(OnWorker):
    """SIGKILL; nobody knows whether the worker will return."""

    def befall(self, world: World, process: Process) -> bool:
        world.kill(self.worker)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounce(OnWorker):
    """Killed and started again, within its session or not."""

    back_ms: int
    protocol: ConnectProtocol = ConnectProtocol.SESSIONED

    def befall(self, world: World, process: Process) -> bool:
        world.bounce(self.worker, self.back_ms, protocol=self.protocol)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(OnWorker):
    """:param absence: what it says about its absence; None if nothing"""

    absence: Absence | None = None

    def befall(self, world: World, process: Process) -> bool:
        if process.asleep or process.state.phase is Phase.LEAVING:
            return False
        world.leave(self.worker, self.absence)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver(OnWorker):
    gap_ms: int

    def befall(self, world: World, process: Process) -> bool:
        if not process.can_hand_over:
            return False
        world.hand_over_and_go_on(self.worker, self.gap_ms)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace(OnWorker):
    """A second process takes the worker's name while the first still runs, cut off or not.

    Not while the first is still joining: it might be the last to take the name. Nor while group records are stuck: the
    second process reports the first one's tasks from the record.
    """

    cut_off: bool

    def befall(self, world: World, process: Process) -> bool:
        if process.state.phase is not Phase.STABLE or not world.record_is_current:
            return False
        if self.cut_off:
            process.cut()
        world.start(self.worker, predecessor=Predecessor.UNKNOWN, protocol=process.settings.protocol)
        return True


# ---- workers get into trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(OnWorker):
    """SIGSTOP, and SIGCONT after some time, which may be longer than a session."""

    ms: int

    def befall(self, world: World, process: Process) -> bool:
        world.note(f"{process.name:8} ---- is paused for {self.ms} ms")
        process.sleep(self.ms)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff(OnWorker):
    ms: int

    def befall(self, world: World, process: Process) -> bool:
        world.note(f"{process.name:8} ---- is cut off for {self.ms} ms")
        process.cut()
        world.clock.after(self.ms, process.reconnect)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hush(OnWorker):
    """The worker's records arrive late in the status topic, perhaps after others have its tasks."""

    ms: int

    def befall(self, world: World, process: Process) -> bool:
        world.note(f"{process.name:8} ---- its records are stuck for {self.ms} ms")
        process.hush(self.ms)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FallBehind(OnWorker):
    """The worker does not read the jobs topic for a while."""

    ms: int

    def befall(self, world: World, process: Process) -> bool:
        process.reads_jobs = False
        world.note(f"{process.name:8} ---- does not read the jobs topic for {self.ms} ms")
        world.clock.after(self.ms, process.read_jobs_again)
        return True


class Moment(str, Enum):
    """The moment at which a leader is lost."""

    PREPARING = "preparing"
    """It has joined a rebalance that waits for others."""
    COMPLETING = "completing"
    """It knows that it leads, and has computed nothing."""
    COMPUTED = "computed"
    """It has sent the assignment, which never arrives."""
    STORED = "stored"
    """The coordinator has the assignment; the group record was not written."""
    STABLE = "stable"
    DELAY = "delay"
    """Stable, while lost tasks wait for their worker."""

    def has_come(self, world: World, leader: Process) -> bool:
        state, group = leader.state, world.coordinator.state
        led = (state.generation, state.member_id) in world.computed
        match self:
            case Moment.PREPARING:
                return group is GroupState.PREPARING and state.phase is Phase.PREPARING_REBALANCE
            case Moment.COMPLETING:
                return group is GroupState.COMPLETING and state.phase is Phase.COMPLETING_REBALANCE and not led
            case Moment.COMPUTED:
                return group is GroupState.COMPLETING and state.phase is Phase.COMPLETING_REBALANCE and led
            case Moment.STORED:
                return group is GroupState.STABLE and state.phase is Phase.COMPLETING_REBALANCE
            case Moment.STABLE:
                return group is GroupState.STABLE and state.phase is Phase.STABLE
            case Moment.DELAY:
                return state.phase is Phase.STABLE and state.rejoin_at is not None


class Loss(str, Enum):
    """How a process is lost."""

    KILLED = "killed"
    PAUSED = "paused"
    CUT_OFF = "cut off"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseLeader(Action):
    """The leader is lost at the next such moment, if there is one in time."""

    moment: Moment
    loss: Loss
    within_ms: int = 20_000
    away_ms: int = 25_000

    def apply(self, world: World) -> bool:
        until = world.clock.now + self.within_ms

        def strikes() -> bool:
            if world.at_peace or world.clock.now > until:
                return True
            leader = world.leader
            if leader is None or not self.moment.has_come(world, leader):
                return False
            world.leaders_lost[self.moment.value] += 1
            world.note(f"{leader.name:8} ---- leads ({self.moment.value}) and is {self.loss.value}")
            lose(world, leader, self.loss, self.away_ms)
            return True

        world.watch(strikes)
        return True


def lose(world: World, process: Process, loss: Loss, away_ms: int) -> None:
    """A process is lost for some time or for good."""
    match loss:
        case Loss.KILLED:
            world.kill(process.worker)
        case Loss.PAUSED:
            process.sleep(away_ms)
        case Loss.CUT_OFF:
            process.cut()
            world.clock.after(away_ms, process.reconnect)


# ---- the broker and the network


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather(Action):
    """From now on, messages have these faults and latencies."""

    lose_request: float
    lose_reply: float
    double_reply: float
    late_reply: float
    reorder: float
    latency_ms: tuple[int, int]

    def apply(self, world: World) -> bool:
        world.anything_lossy = True
        world.network.faults = Faults(
            lose_request=self.lose_request,
            lose_reply=self.lose_reply,
            double_reply=self.double_reply,
            late_reply=self.late_reply,
            reorder=self.reorder,
            lose_hint=self.lose_request,
            double_hint=self.double_reply,
            latency_ms=self.latency_ms,
        )
        world.note(f"network  ---- {world.network.faults}")
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveCoordinator(Action):
    def apply(self, world: World) -> bool:
        world.note("broker   ---- the coordinator moves")
        world.anything_lossy = True
        world.coordinator.move()
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAway(Action):
    ms: int

    def apply(self, world: World) -> bool:
        world.note(f"broker   ---- is away for {self.ms} ms")
        world.coordinator_away = True
        world.clock.after(self.ms, world.coordinator_back)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetGroup(Action):
    """All workers die, and the coordinator forgets the group."""

    def apply(self, world: World) -> bool:
        world.forget_group()
        return True


# ---- jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class SetJob(Action):
    """Adds a job with this number of tasks, or resizes it."""

    job: str
    tasks: int

    def apply(self, world: World) -> bool:
        others = {task for task in world.jobs.written if task.job != self.job}
        world.configure(others | {planner_of(self.job)} | {TaskId(self.job, index) for index in range(self.tasks)})
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveJob(Action):
    job: str

    def apply(self, world: World) -> bool:
        left = {task for task in world.jobs.written if task.job != self.job}
        if left == world.jobs.written:
            return False
        world.configure(left)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Replan(Action):
    job: str

    def apply(self, world: World) -> bool:
        if not any(task.job == self.job for task in world.jobs.written):
            return False
        world.plan_again(self.job)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Action):
    """A task finishes, wherever it runs."""

    task: TaskId

    def apply(self, world: World) -> bool:
        holders = [process for process in world.members if self.task in process.running]
        if not holders or any(process.asleep for process in holders):
            return False
        world.finish(self.task)
        return True
