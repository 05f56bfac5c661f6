"""Random histories of a declarative group: actions and faults for a while, then peace, in which the group must
converge. A step is an action that took effect.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simulation.declarative import actions as do
from simulation.declarative import coordinator_actions as coordinators
from simulation.declarative import invariants
from simulation.declarative.actions import Action
from simulation.declarative.shard_topics import Fault
from simulation.declarative.wire import Weather
from simulation.declarative.world import World
from simulation.failing import HistoryError
from simulation.invariants import BrokenError

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Incremental, Policy

WORKERS = ("w1", "w2", "w3", "w4", "w5", "w6")
JOBS = "ABC"
DRIFT_PPM = 5_000
SKEW_MS = 100
POLICIES: tuple[Policy, ...] = (
    Deferred(max_delay_ms=15_000),
    Deferred(max_delay_ms=15_000),
    IMMEDIATE,
    Incremental(max_moves=2, move_interval_ms=1_000, max_delay_ms=15_000),
)
PAUSES_MS = ((0, 20), (0, 500), (0, 500), (300, 3_000), (2_000, 8_000))
LONGEST_MS = 32_000
"""The longest pause of a process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What may happen in a history besides workers that start and leave, and jobs that change.

    :param steps: actions that take effect
    :param members: workers die, are paused, cut off, replaced, or slow to stop
    :param coordinators: they die, are paused, and move; transactions fail
    :param network: messages are lost, late and duplicated
    :param airflow: it starts processes late
    """

    steps: int = 50
    members: bool = False
    coordinators: bool = False
    network: bool = False
    airflow: bool = False


PLANS = {
    "declarative-calm": Plan(),
    "declarative-members": Plan(members=True),
    "declarative-coordinators": Plan(coordinators=True),
    "declarative-network": Plan(network=True),
    "declarative-airflow": Plan(airflow=True),
    "declarative-everything": Plan(members=True, coordinators=True, network=True),
}
"""By the names for ``make simulate PLAN=``."""


@dataclass(slots=True, kw_only=True)
class Told:
    """The outcome of a history.

    :param actions: all that were tried
    :param steps: the number that took effect
    :param peace_ms: the time from the end of the faults until the group was at rest
    :param rounds_of_peace: the targets that were installed meanwhile
    """

    world: World
    actions: list[Action] = field(default_factory=list)
    steps: int = 0
    peace_ms: int = 0
    rounds_of_peace: int = 0
    failure: HistoryError | None = None

    @property
    def rounds(self) -> int:
        return self.world.checks.targets

    @property
    def lost(self) -> Counter[str]:
        """Coordinators, by the fault."""
        return self.world.lost

    @property
    def struck(self) -> Counter[str]:
        """Faults of messages and transactions, by kind."""
        return self.world.struck

    @property
    def kind(self) -> str:
        """The kind of failure: the broken invariant, else the exception."""
        if self.failure is None:
            return ""
        cause = self.failure.failure
        return cause.invariant if isinstance(cause, BrokenError) else type(cause).__name__


def play(seed: int, plan: Plan, actions: Sequence[Action] | None = None) -> Told:
    """Play one history.

    :param actions: to play; None makes them up from the seed
    """
    rng = random.Random(f"{seed}/declarative")
    world = World(
        seed,
        policy=rng.choice(POLICIES),
        coordinators=3,
        clock_drift_ppm=DRIFT_PPM,
        wall_skew_ms=SKEW_MS,
        slow=0.3 if plan.members else 0.0,
    )
    world.all_well = not plan.members
    told = Told(world=world)
    author = Author(seed, plan, world)
    script = iter(actions) if actions is not None else iter(author.next, None)
    try:
        for action in script:
            told.actions.append(action)
            world.run(action.after_ms)
            told.steps += action.apply(world)
            if actions is None and told.steps >= plan.steps:
                break
        _peace(world, told)
    except HistoryError as failure:
        told.failure = failure
    except Exception as failure:  # noqa: BLE001  # failures of actions are shown like those of steps
        told.failure = HistoryError(failure, world)
        told.failure.__cause__ = failure
    return told


SETTLE_MS = 240_000
"""The longest time: paused processes wake, sessions and rebalances end, delays run, one after the other."""
REST_MS = 20_000


def _peace(world: World, told: Told) -> None:
    """The faults stop; the group comes to rest."""
    world.make_peace()
    began, targets = world.clock.now, world.checks.targets
    world.run(LONGEST_MS)
    if not world.members:
        world.start(next(worker for worker in WORKERS if worker not in world.live))
    _settle(world)
    told.peace_ms = world.clock.now - began
    told.rounds_of_peace = world.checks.targets - targets
    world.jobs.set_job("last", 3)
    world.jobs_changed()
    _settle(world)
    world.checks.at_rest()
    epoch = world.checks.group.epoch
    world.run(REST_MS)
    invariants.a_group_at_rest_stays_at_rest(epoch, world.checks.group.epoch)


def _settle(world: World) -> None:
    is_at_rest = world.comes_to(lambda: not world.why_not_at_rest(), within_ms=SETTLE_MS)
    invariants.everything_converges("" if is_at_rest else world.why_not_at_rest())


class Author:
    """Makes up a history. It looks at the group, so that most of its actions take effect.

    Its random numbers are its own; the actions play the same without it.
    """

    def __init__(self, seed: int, plan: Plan, world: World) -> None:
        self._rng = random.Random(f"{seed}/author")
        self._world = world
        self._wanted = self._rng.randint(3, 5)
        self._first = [self._start, self._set_job, self._start, self._set_job]
        ideas: list[tuple[float, Callable[[int], Action | None]]] = [
            (6, self._leave), (5, self._set_job), (2, self._remove_job), (4, self._finish), (3, self._hand_over),
        ]  # fmt: skip
        if plan.members:
            ideas += [
                (4, self._kill), (8, self._bounce), (3, self._replace), (5, self._pause), (5, self._cut_off),
                (2, self._drop), (2, self._fail),
            ]  # fmt: skip
        if plan.coordinators:
            ideas += [
                (6, self._kill_coordinator), (8, self._pause_coordinator), (4, self._move), (6, self._spoil),
                (2, self._load_slowly),
            ]  # fmt: skip
        if plan.network:
            ideas += [(8, self._weather)]
        if plan.airflow:
            ideas += [(8, self._hold_back)]
        if plan.members or plan.coordinators or plan.network:
            ideas += [(3, self._configure)]
        self._ideas = [idea for _, idea in ideas]
        self._weights = [weight for weight, _ in ideas]

    def next(self) -> Action:
        """The next action."""
        after_ms = self._rng.randint(*self._rng.choice(PAUSES_MS))
        while True:
            action = self._idea()(after_ms)
            if action is not None:
                return action

    def _idea(self) -> Callable[[int], Action | None]:
        if self._first:
            return self._first.pop(0)
        present = len(self._world.live) + len(self._world.expected)
        if self._rng.random() < 0.3 * (self._wanted - present):
            return self._start
        return self._rng.choices(self._ideas, self._weights)[0]

    def _someone(self) -> str:
        return self._rng.choice(sorted(self._world.live) or WORKERS)

    # ---- workers

    def _start(self, after_ms: int) -> Action | None:
        gone = sorted(set(WORKERS) - self._world.live.keys() - self._world.expected)
        return do.Start(after_ms=after_ms, worker=self._rng.choice(gone)) if gone else None

    def _leave(self, after_ms: int) -> Action:
        reason = self._rng.choice([None, LeaveReason.STOPPED, LeaveReason.KILLED, LeaveReason.RESTARTING])
        return do.Leave(after_ms=after_ms, worker=self._someone(), reason=reason)

    def _hand_over(self, after_ms: int) -> Action:
        return do.HandOver(after_ms=after_ms, worker=self._someone(), gap_ms=self._rng.choice([0, 10, 500, 2_500]))

    def _hold_back(self, after_ms: int) -> Action:
        gap_ms = self._rng.choice([2_500, 9_000, 11_000, 16_000, 30_000])
        return do.HoldBack(after_ms=after_ms, worker=self._someone(), gap_ms=gap_ms)

    def _kill(self, after_ms: int) -> Action:
        return do.Kill(after_ms=after_ms, worker=self._someone())

    def _bounce(self, after_ms: int) -> Action:
        back_ms = self._rng.randint(*self._rng.choice(((1, 2_000), (10, 9_000), (9_000, 30_000))))
        known = self._rng.random() < 0.6
        return do.Bounce(after_ms=after_ms, worker=self._someone(), back_ms=back_ms, known=known)

    def _replace(self, after_ms: int) -> Action:
        return do.Replace(after_ms=after_ms, worker=self._someone(), cut_off=self._rng.random() < 0.5)

    def _pause(self, after_ms: int) -> Action:
        return do.Pause(after_ms=after_ms, worker=self._someone(), ms=self._rng.choice([500, 5_000, 9_500, 30_000]))

    def _cut_off(self, after_ms: int) -> Action:
        return do.CutOff(after_ms=after_ms, worker=self._someone(), ms=self._rng.choice([2_000, 9_000, 30_000]))

    def _drop(self, after_ms: int) -> Action:
        return do.DropTask(after_ms=after_ms, worker=self._someone())

    def _fail(self, after_ms: int) -> Action:
        return do.FailAssignor(after_ms=after_ms, worker=self._someone())

    # ---- jobs

    def _set_job(self, after_ms: int) -> Action:
        return do.SetJob(after_ms=after_ms, job=self._rng.choice(JOBS), tasks=self._rng.randint(0, 7))

    def _remove_job(self, after_ms: int) -> Action:
        return do.RemoveJob(after_ms=after_ms, job=self._rng.choice(JOBS))

    def _finish(self, after_ms: int) -> Action | None:
        running = sorted(task for process in self._world.live.values() for task in process.copies.running)
        return do.Finish(after_ms=after_ms, task=self._rng.choice(running)) if running else None

    # ---- coordinators and the network

    def _kill_coordinator(self, after_ms: int) -> Action:
        return coordinators.KillCoordinator(after_ms=after_ms)

    def _pause_coordinator(self, after_ms: int) -> Action:
        ms = self._rng.choice([200, 2_000, 3_500, 6_000, 15_000])
        return coordinators.PauseCoordinator(after_ms=after_ms, ms=ms)

    def _move(self, after_ms: int) -> Action:
        return coordinators.MoveShard(after_ms=after_ms)

    def _spoil(self, after_ms: int) -> Action:
        faults = tuple(self._rng.choices(list(Fault), k=self._rng.randint(1, 3)))
        return coordinators.SpoilTransactions(after_ms=after_ms, faults=faults)

    def _load_slowly(self, after_ms: int) -> Action:
        return coordinators.LoadSlowly(after_ms=after_ms)

    def _configure(self, after_ms: int) -> Action:
        session_ms = self._rng.choice([None, 5_000, 8_000, 20_000, 40_000])
        return coordinators.Configure(
            after_ms=after_ms, session_ms=session_ms, interval_ms=self._rng.choice([None, 500, 1_500])
        )

    def _weather(self, after_ms: int) -> Action:
        rng = self._rng
        weather = Weather(
            lose_request=rng.choice([0, 0.02, 0.1]),
            double_request=rng.choice([0, 0.1]),
            lose_reply=rng.choice([0, 0.02, 0.1]),
            double_reply=rng.choice([0, 0.1]),
            late_reply=rng.choice([0, 0.05]),
            latency_ms=rng.choice([(0, 3), (1, 40), (0, 400)]),
        )
        return do.ChangeWeather(after_ms=after_ms, weather=weather)
