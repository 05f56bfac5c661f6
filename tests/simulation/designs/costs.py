"""The costs of eager rebalancing and of each resolution policy, for the same histories of a simulated group.

The histories are played in virtual time, where each design can have exactly the same one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from statistics import mean
from typing import Final

from simulation.world import World

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Incremental, Policy
from airflow_provider.state.records import ControlAction
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import ConnectProtocol, TaskId, planner_of

STOP_MS: Final = (200, 2_000)
"""The range of times that a task takes to stop."""

MAX_DELAY_MS: Final = 60_000
INTERVAL_MS: Final = 10_000
MAX_MOVES: Final = 6
AWAY_MS: Final = 40_000
"""The absence of a bounced worker: longer than its session of 10 s, so that the group notices."""

QUICK_MS: Final = 5_000
"""The absence when the group must not notice."""

_BEFORE_MS: Final = 10_000
"""How long a settled group is watched before the history begins."""

_AFTER_MS: Final = 15_000
"""And how long after it is in balance again."""

_LONGEST_MS: Final = 900_000
_JOBS: Final = {"a": 12, "b": 12, "c": 12, "d": 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One way to rebalance.

    :param learned: None if tasks are not learned before they move
    :param warm_ms: the time to make a task ready: at its learner before it moves, or after its start
    """

    name: str
    protocol: ConnectProtocol
    policy: Policy
    learned: LearnedRule | None = None
    warm_ms: int = 0


DESIGNS: Final = (
    Design(name="eager", protocol=ConnectProtocol.EAGER, policy=Deferred()),
    Design(name="I immediate", protocol=ConnectProtocol.SESSIONED, policy=IMMEDIATE),
    Design(name="II deferred", protocol=ConnectProtocol.SESSIONED, policy=Deferred(max_delay_ms=MAX_DELAY_MS)),
    Design(
        name="III incremental",
        protocol=ConnectProtocol.SESSIONED,
        policy=Incremental(max_moves=MAX_MOVES, move_interval_ms=INTERVAL_MS, max_delay_ms=MAX_DELAY_MS),
    ),
)


class Stage:
    """A group in a world of its own, and the events of a history."""

    def __init__(self, seed: int, design: Design, workers: int) -> None:
        self.design = design
        self.workers = [f"w{number}" for number in range(1, workers + 1)]
        self.rng = random.Random(f"{seed}/history")
        self.world = World(
            seed,
            policy=design.policy,
            stop_ms=STOP_MS,
            stateful=frozenset(_JOBS) if design.learned else frozenset(),
            learned=(design.learned or LearnedRule.WHEN_READY,),
            warm_ms=(design.warm_ms, design.warm_ms),
            cold_start_ms=design.warm_ms,
        )
        self.jobs = dict(_JOBS)
        self.configure()
        for worker in self.workers:
            self.start(worker)
        self.last_action_ms = 0

    def configure(self) -> None:
        tasks = {TaskId(job, index) for job, number in self.jobs.items() for index in range(number)}
        self.world.configure(tasks | {planner_of(job) for job in self.jobs})

    def start(self, worker: str) -> None:
        self.world.start(worker, protocol=self.design.protocol)

    def at(self, ms: int, action: Callable[[], None]) -> None:
        """Schedule an action, this long after the group has settled."""
        self.world.clock.after(ms, action)
        self.last_action_ms = max(self.last_action_ms, self.world.clock.now + ms)

    def join(self, *workers: str, apart_ms: int = 0) -> None:
        for number, worker in enumerate(workers):
            self.at(number * apart_ms, partial(self.start, worker))

    def leave(self, worker: str, absence: Absence, after_ms: int = 0) -> None:
        self.at(after_ms, lambda: self.world.leave(worker, absence))

    def scale_down(self, worker: str, after_ms: int) -> None:
        """The worker leaves for good; if possible after others have learned its tasks."""
        if self.design.learned is None:
            self.leave(worker, Absence(left=LeaveReason.STOPPED), after_ms)
        else:
            self.at(after_ms, lambda: self.world.processes[worker].asked.ask(ControlAction.LEAVE_SOON))

    def kill(self, worker: str) -> None:
        self.at(0, lambda: self.world.kill(worker))


def one_by_one(stage: Stage) -> None:
    stage.join(*[f"w{number}" for number in range(5, 9)], apart_ms=15_000)


def many_at_once(stage: Stage) -> None:
    stage.join(*[f"w{number}" for number in range(5, 13)])


def bounce(stage: Stage) -> None:
    worker = stage.rng.choice(stage.workers)
    stage.kill(worker)
    stage.at(AWAY_MS, lambda: stage.start(worker))


def quick_bounce(stage: Stage) -> None:
    worker = stage.rng.choice(stage.workers)
    stage.kill(worker)
    stage.at(QUICK_MS, lambda: stage.start(worker))


def rolling_bounce(stage: Stage) -> None:
    """As in an upgrade: each worker leaves in order and comes back before the next one leaves."""
    for number, worker in enumerate(stage.workers):
        stage.leave(worker, Absence(left=LeaveReason.RESTARTING, returns_ms=AWAY_MS), 20_000 * number)
        stage.at(20_000 * number + 10_000, partial(stage.start, worker))


def loss(stage: Stage) -> None:
    stage.kill(stage.rng.choice(stage.workers))


def scale_down(stage: Stage) -> None:
    for number, worker in enumerate(stage.rng.sample(stage.workers, 2)):
        stage.scale_down(worker, 1_000 * number)


def new_job(stage: Stage) -> None:
    stage.jobs["e"] = 12
    stage.at(0, stage.configure)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A kind of history of a balanced group.

    :param workers: their number at the beginning
    """

    name: str
    happens: Callable[[Stage], None]
    workers: int = 4


HISTORIES: Final = (
    History(name="4 workers join, one by one", happens=one_by_one),
    History(name="8 workers join at once", happens=many_at_once),
    History(name="a worker is away for 5 s", happens=quick_bounce),
    History(name="a worker is away for 40 s", happens=bounce),
    History(name="all are restarted, one by one", happens=rolling_bounce),
    History(name="a worker is lost for good", happens=loss),
    History(name="2 of 6 workers leave", happens=scale_down, workers=6),
    History(name="a job is added", happens=new_job),
)


@dataclass(slots=True, kw_only=True)
class Cost:
    """The costs of one history under one design, or the means over several seeds.

    :param rebalances: the completed ones
    :param stopped: how often a living worker stopped a task
    :param moved: how often a task went on at another worker
    :param stopped_s: the time in seconds that tasks did not run, summed over the tasks
    :param most_standing: the most tasks that stood still at the same time
    :param balanced_s: the time in seconds from the last event until the group was in balance
    :param longest_s: the longest time that a single task stood still
    :param most_revoked: the most tasks revoked by one round
    :param running: the number of running tasks over time (ms since the history began)
    """

    rebalances: float = 0
    stopped: float = 0
    moved: float = 0
    stopped_s: float = 0
    most_standing: float = 0
    balanced_s: float = 0
    longest_s: float = 0
    most_revoked: int = 0
    running: list[tuple[int, int]] = field(default_factory=list)


class Observer:
    """Looks at a world after each step and adds up the costs. Planners are left out: they do no work."""

    def __init__(self, world: World) -> None:
        self.cost = Cost()
        self._world = world
        self._began = self._at = world.clock.now
        self._rounds = len(world.coordinator.rounds)
        self._records = len(world.records)
        self._running = self._look()
        self._started = self._runs()
        self._stopped_at: dict[TaskId, int] = {}
        self._owner = dict(self._running)
        self._standing = self._missing()
        self.cost.running.append((0, len(self._running)))

    def see(self) -> None:
        world, now = self._world, self._world.clock.now
        self.cost.stopped_s += self._standing * (now - self._at) / 1000
        self._at = now
        started = self._runs()
        self.cost.stopped += len(self._started.keys() - started.keys() - self._of_the_dead(self._started))
        self._started = started
        running = self._look()
        if running != self._running:
            self._count(running)
            self._running = running
            self.cost.running.append((now - self._began, len(running)))
        self._standing = self._missing()
        self.cost.most_standing = max(self.cost.most_standing, self._standing)
        self.cost.rebalances = len(world.coordinator.rounds) - self._rounds

    def end(self) -> Cost:
        records = self._world.records[self._records :]
        self.cost.most_revoked = max(
            (sum(len(tasks) for tasks in record.revoked.values()) for record in records), default=0
        )
        return self.cost

    def _look(self) -> dict[TaskId, str]:
        return {
            task: process.worker
            for process in self._world.everybody
            for task in process.tasks.working
            if not task.is_planner
        }

    def _runs(self) -> dict[TaskId, str]:
        return {
            task: process.name for process in self._world.everybody for task in process.running if not task.is_planner
        }

    def _of_the_dead(self, started: Mapping[TaskId, str]) -> set[TaskId]:
        alive = {process.name for process in self._world.everybody if process.alive}
        return {task for task, name in started.items() if name not in alive}

    def _missing(self) -> int:
        return sum(task.index >= 0 for task in self._world.configured) - len(self._running)

    def _count(self, running: Mapping[TaskId, str]) -> None:
        now = self._world.clock.now
        self._stopped_at.update(dict.fromkeys(self._running.keys() - running.keys(), now))
        for task in self._stopped_at.keys() & running.keys():
            self.cost.longest_s = max(self.cost.longest_s, (now - self._stopped_at.pop(task)) / 1000)
        for task, worker in running.items():
            self.cost.moved += self._owner.get(task, worker) != worker
            self._owner[task] = worker


def play(history: History, design: Design, seed: int) -> Cost:
    """One history, from a group in balance to the group in balance again."""
    stage = Stage(seed, design, history.workers)
    world = stage.world
    world.run_until(lambda: in_balance(world), within_ms=_LONGEST_MS)
    world.run(2 * MAX_DELAY_MS)  # long enough that the policies remember nothing of the beginning
    observer = Observer(world)
    began = world.clock.now
    stage.at(_BEFORE_MS, lambda: history.happens(stage))

    def is_over(at: int) -> bool:
        observer.see()
        return world.clock.now >= at

    world.run_until(lambda: is_over(began + _BEFORE_MS + 1), within_ms=_LONGEST_MS)
    world.run_until(lambda: is_over(stage.last_action_ms + 1), within_ms=_LONGEST_MS)

    def is_balanced() -> bool:
        observer.see()
        return in_balance(world)

    world.run_until(is_balanced, within_ms=_LONGEST_MS)
    observer.cost.balanced_s = (world.clock.now - stage.last_action_ms) / 1000
    end = world.clock.now + _AFTER_MS
    world.run_until(lambda: is_over(end), within_ms=_LONGEST_MS)
    return observer.end()


def in_balance(world: World) -> bool:
    """Whether everything runs, evenly spread over exactly the members that the coordinator knows."""
    loads = [sum(task.index >= 0 for task in process.tasks.working) for process in world.members]
    all_work = sum(loads) == sum(not task.is_planner for task in world.configured)
    even = max(loads) - min(loads) <= 1 and len(world.coordinator.members) == len(loads)
    return world.settled and even and all_work


def compare(
    seeds: int, histories: tuple[History, ...] = HISTORIES, designs: tuple[Design, ...] = DESIGNS
) -> dict[tuple[str, str], Cost]:
    """The mean costs by the names of history and design; ``running`` is that of the first seed."""
    means = {}
    for history in histories:
        for design in designs:
            costs = [play(history, design, seed) for seed in range(seeds)]
            means[history.name, design.name] = Cost(
                rebalances=mean(cost.rebalances for cost in costs),
                stopped=mean(cost.stopped for cost in costs),
                moved=mean(cost.moved for cost in costs),
                stopped_s=mean(cost.stopped_s for cost in costs),
                most_standing=mean(cost.most_standing for cost in costs),
                balanced_s=mean(cost.balanced_s for cost in costs),
                longest_s=mean(cost.longest_s for cost in costs),
                most_revoked=max(cost.most_revoked for cost in costs),
                running=costs[0].running,
            )
    return means
