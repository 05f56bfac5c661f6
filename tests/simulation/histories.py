"""Random histories of a group: actions and faults for a while, then peace, in which the group must converge.

A step is an action of module ``actions`` that took effect (a worker started, killed, bounced, ...; the leader lost; the
network's faults changed; a job changed). Not counted are actions that did not apply, and whatever follows by itself:
messages that are lost, late, doubled or reordered, timers, everything that members do. A history goes on until it has
the number of steps in its plan.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from simulation import actions as do
from simulation import failure_actions as failures
from simulation import learner_actions as learners
from simulation import rest_invariants, spark_invariants
from simulation.actions import Action, Loss, Moment
from simulation.culprits import MAX_DEATHS, most_deaths
from simulation.failing import HistoryError
from simulation.invariants import BrokenError
from simulation.jobs import JobsTopic, of_one_slot, unweighed
from simulation.lacking import LONGEST_WAIT_MS
from simulation.learner_actions import Role, Step
from simulation.leave_request import finish_what_drains
from simulation.older import OLDER
from simulation.world import NO_LIMIT, SETTINGS, World

from airflow_provider.assignment.learners.model import Limits
from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Incremental, Policy
from airflow_provider.state.records import ControlAction
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import ConnectProtocol, TaskId

JOBS = "ABCD"
WORKERS = ("w1", "w2", "w3", "w4", "w5", "w6")
DRIFT_PPM = 5_000
SKEW_MS = 100
RETURNS_MS = (None, 0, 5_000, 60_000)
"""What processes say about their return, truly or not: some that say 0 come back, others come back too late."""
SLOTS = (2, NO_LIMIT)
STATEFUL = frozenset("ABC")
WARM_MS = ((20, 400), (300, 3_000), (2_000, 12_000))
PAUSES_MS = ((0, 20), (0, 500), (0, 500), (300, 3_000), (2_000, 8_000))
LONG_PAUSE_MS = (6_000, 15_000)
LIMITS = (Limits(), Limits(per_worker=1), Limits(per_group=2), Limits(longest_ms=20_000), Limits(ready_from=0.5))
ABSENCES = (
    None,
    Absence(left=LeaveReason.STOPPED),
    Absence(left=LeaveReason.KILLED),
    Absence(left=LeaveReason.RESTARTING),
    Absence(left=LeaveReason.RESTARTING, returns_ms=8_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What may happen in a history.

    :param steps: actions that take effect
    :param namesakes: a second process may take a worker's name. Not in eager groups: their metadata can't say what the
        first one still runs.
    :param troubles: workers may be paused or cut off, their records late
    :param converges_within: the most rounds from the end of the faults until the group is at rest
    :param moves: the coordinator may move, be away, or forget the group
    :param weigh: a task's cost in its plan
    :param wants: a task's slots in its plan
    :param fails: tasks may fail for good, and be retried
    :param sparks: the Spark of a worker may end by itself, and some tasks end it each time that they run
    :param sparkless: the Spark of workers may not start for a while, and that of one worker for ever
    :param slots: what processes may have, each by itself; none: all have as many
    """

    steps: int = 62
    policy: Policy = Deferred(max_delay_ms=20_000)  # noqa: RUF009  # frozen
    converges_within: int = 12
    lossy: bool = True
    troubles: bool = True
    moves: bool = True
    fails: bool = False
    sparks: bool = False
    sparkless: bool = False
    namesakes: bool = True
    protocols: tuple[ConnectProtocol, ...] = (ConnectProtocol.SESSIONED,)
    learned: tuple[LearnedRule, ...] = tuple(LearnedRule)
    weigh: Callable[[TaskId], float | None] = unweighed
    wants: Callable[[TaskId], int] = of_one_slot
    slots: Sequence[int] = ()

    @property
    def learns(self) -> bool:
        return ConnectProtocol.EXTENSIBLE in self.protocols

    @property
    def settle_ms(self) -> int:
        """The time from the end of the faults until a group must be at rest: earlier sessions and rebalances end, then
        a delay and a backoff may run. Tasks may have to be learned one after the other. Who ends Spark is found in
        trials of some minutes each.
        """
        found_within_ms = 2 * 3_600_000 if self.sparks or self.sparkless else 0
        return 3 * self.policy.max_delay_ms + 150_000 + (1_000_000 if self.learns else 0) + found_within_ms


def heavy_tailed(task: TaskId) -> float:
    """A few long tasks are most of the work."""
    return random.Random(f"{task}/weight").paretovariate(1.1)


def one_to_three(task: TaskId) -> int:
    """Slots."""
    return random.Random(f"{task}/wants").randint(1, 3)


def one_with_state(task: TaskId) -> int:
    """Slots: jobs with larger tasks are not learned."""
    return 1 if task.job in STATEFUL else one_to_three(task)


UNEQUAL = (1, 2, 3, 8)
BACK_WITHIN_MS = LONGEST_WAIT_MS + 60_000
MANY = 60
"""Each task that has been learned may take a round or two."""

PLANS = {
    "calm": Plan(lossy=False, troubles=False, moves=False, namesakes=False),
    "lossy": Plan(troubles=False, moves=False, namesakes=False),
    "troubled": Plan(lossy=False, moves=False),
    "wild": Plan(),
    "undelayed": Plan(policy=IMMEDIATE),
    "paced": Plan(policy=Incremental(max_moves=2, move_interval_ms=1_000, max_delay_ms=20_000), converges_within=40),
    "eager": Plan(protocols=(ConnectProtocol.EAGER,), namesakes=False),
    "mixed": Plan(protocols=(ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE), namesakes=False),
    "learners": Plan(protocols=(ConnectProtocol.EXTENSIBLE,), learned=(LearnedRule.WHEN_READY,), converges_within=MANY),
    "at-rebalance": Plan(
        protocols=(ConnectProtocol.EXTENSIBLE,), learned=(LearnedRule.AT_REBALANCE,), converges_within=MANY
    ),
    "skewed": Plan(weigh=heavy_tailed),
    "skewed-learners": Plan(protocols=(ConnectProtocol.EXTENSIBLE,), weigh=heavy_tailed, converges_within=MANY),
    "skewed-failing": Plan(weigh=heavy_tailed, fails=True),
    "unequal": Plan(slots=UNEQUAL),
    "unequal-calm": Plan(lossy=False, troubles=False, moves=False, namesakes=False, slots=UNEQUAL),
    "unequal-eager": Plan(protocols=(ConnectProtocol.EAGER,), namesakes=False, slots=UNEQUAL),
    "unequal-learners": Plan(protocols=(ConnectProtocol.EXTENSIBLE,), converges_within=MANY, slots=UNEQUAL),
    "unequal-failing": Plan(fails=True, slots=UNEQUAL),
    "large": Plan(wants=one_to_three),
    "large-skewed": Plan(weigh=heavy_tailed, wants=one_to_three),
    "large-learners": Plan(protocols=(ConnectProtocol.EXTENSIBLE,), wants=one_with_state, converges_within=MANY),
    "unequal-skewed-learners": Plan(
        protocols=(ConnectProtocol.EXTENSIBLE,),
        weigh=heavy_tailed,
        wants=one_with_state,
        slots=UNEQUAL,
        converges_within=MANY,
    ),
    "failing": Plan(lossy=False, troubles=False, moves=False, namesakes=False, fails=True),
    "failing-troubled": Plan(lossy=False, moves=False, fails=True),
    "failing-wild": Plan(fails=True),
    "failing-mixed": Plan(protocols=(ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE), namesakes=False, fails=True),
    "failing-learners": Plan(
        protocols=(ConnectProtocol.EXTENSIBLE,),
        learned=(LearnedRule.WHEN_READY, LearnedRule.AT_REBALANCE),
        converges_within=MANY,
        fails=True,
    ),
    "sparks": Plan(lossy=False, troubles=False, moves=False, namesakes=False, slots=(NO_LIMIT,), sparks=True),
    "sparks-wild": Plan(sparks=True),
    "sparks-learners": Plan(protocols=(ConnectProtocol.EXTENSIBLE,), converges_within=MANY, sparks=True),
    "sparkless": Plan(lossy=False, troubles=False, moves=False, namesakes=False, sparkless=True),
    "sparkless-wild": Plan(sparkless=True),
    "sparkless-learners": Plan(protocols=(ConnectProtocol.EXTENSIBLE,), converges_within=MANY, sparkless=True),
    "mixed-learners": Plan(protocols=(ConnectProtocol.EXTENSIBLE, OLDER), converges_within=MANY),
    "rolling": Plan(protocols=(*ConnectProtocol, OLDER), policy=IMMEDIATE, converges_within=MANY, namesakes=False),
}
"""By the names for ``make simulate PLAN=``."""


@dataclass(slots=True, kw_only=True)
class Told:
    """The outcome of a history.

    :param actions: all that were tried
    :param steps: the number that took effect
    :param rounds_of_peace: rebalances from the end of the faults until the group was at rest
    """

    world: World
    actions: list[Action] = field(default_factory=list)
    steps: int = 0
    rounds_of_peace: int = 0
    failure: HistoryError | None = None

    @property
    def rounds(self) -> int:
        return len(self.world.coordinator.rounds)

    @property
    def lost(self) -> Counter[str]:
        """Lost leaders, by the moment of the loss."""
        return self.world.leaders_lost

    @property
    def struck(self) -> Counter[str]:
        """Faults of messages, by kind."""
        return Counter(self.world.network.struck)

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
    world = World(
        seed,
        policy=plan.policy,
        settings=replace(SETTINGS, limits=random.Random(f"{seed}/limits").choice(LIMITS)),
        slots=plan.slots or (random.Random(f"{seed}/slots").choice(SLOTS),),
        stop_ms=(1, 1_200),
        clock_drift_ppm=DRIFT_PPM,
        wall_skew_ms=SKEW_MS,
        returns_ms=RETURNS_MS,
        jobs=_jobs_of(seed, plan),
        learned=plan.learned,
        warm_ms=random.Random(f"{seed}/warm").choice(WARM_MS),
        warm_up_fails=random.Random(f"{seed}/fails").choice((0.0, 0.0, 0.3, 0.9)),
    )
    if plan.sparks:
        _let_some_end_spark(seed, world)
    told = Told(world=world)
    author = Author(seed, plan, world)
    script = iter(actions) if actions is not None else iter(author.next, None)
    try:
        for action in script:
            told.actions.append(action)
            world.run(action.after_ms)
            world.trials.go_on()
            told.steps += action.apply(world)
            if actions is None and told.steps >= plan.steps:
                break
        _peace(world, plan, told)
    except HistoryError as failure:
        told.failure = failure
    except Exception as failure:  # noqa: BLE001  # failures of actions are shown like those of steps
        told.failure = HistoryError(failure, world)
        told.failure.__cause__ = failure
    return told


def _jobs_of(seed: int, plan: Plan) -> JobsTopic:
    """Where tasks are learned, some jobs are streams. Streams that take several slots are played by ``sized_group``."""
    stateful = STATEFUL if plan.learns else frozenset[str]()
    rng, some = random.Random(f"{seed}/streams"), plan.learns and plan.wants is of_one_slot
    streams = frozenset(job for job in JOBS if some and rng.random() < 0.6)
    return JobsTopic(stateful, streams, plan.weigh, plan.wants)


def _let_some_end_spark(seed: int, world: World) -> None:
    rng, culprits = random.Random(f"{seed}/culprits"), world.culprits
    culprits.max_deaths, culprits.end_spark = MAX_DEATHS, True
    for _ in range(rng.randint(0, 2)):
        culprits.after_ms[TaskId(rng.choice(JOBS), rng.randint(-1, 3))] = rng.choice((0, 700, 5_000, 20_000))


def _peace(world: World, plan: Plan, told: Told) -> None:
    """The faults stop; the group comes to rest."""
    world.make_peace()
    world.watch(lambda: finish_what_drains(world))
    world.watch(_look_at_culprits(world))
    world.run_until(
        lambda: not world.expected and not any(process.asleep for process in world.members), within_ms=BACK_WITHIN_MS
    )
    lacking = world.lacking
    if all(lacking.is_without_spark(process.worker) for process in world.staying):
        gone = next(name for name in WORKERS if name not in world.live and not lacking.is_without_spark(name))
        world.start(gone, protocol=plan.protocols[0])
    _settle(world, plan, told)
    _hear_everybody(world)  # the last round knows how every task has ended: none follows because one has
    world.configure(world.jobs.written | {TaskId("last", 0)})
    _settle(world, plan, told)
    _hear_everybody(world)
    world.check_at_rest()


def _hear_everybody(world: World) -> None:
    world.run_until(
        lambda: all(process.has_been_heard and not process.tasks.spark.starts for process in world.everybody)
    )


def _look_at_culprits(world: World) -> Callable[[], bool]:
    """Look from now on how often Spark is ended."""
    culprits, before = world.culprits, world.culprits.deaths
    tasks, workers = max(1, len(world.jobs.written)), max(1, len(world.live) + len(world.expected))
    most = len(culprits.after_ms) * most_deaths(tasks, workers)

    def look() -> bool:
        spark_invariants.who_ends_spark_is_found(deaths=culprits.deaths - before, most=most)
        return False

    return look


def _settle(world: World, plan: Plan, told: Told) -> None:
    rounds = world.coordinator.rounds
    bound = len(rounds) + plan.converges_within
    at_large = (world.culprits, world.lacking)
    settled = world.comes_to(
        lambda: (world.settled and not any(each.at_large for each in at_large)) or len(rounds) > bound,
        within_ms=plan.settle_ms,
    )
    told.rounds_of_peace = max(told.rounds_of_peace, len(rounds) - bound + plan.converges_within)
    rest_invariants.everything_converges(settled=settled and len(rounds) <= bound, within=plan.converges_within)


class Author:
    """Makes up a history. It looks at the group, so that most of its actions take effect.

    Its random numbers are its own; the actions play the same without it.
    """

    def __init__(self, seed: int, plan: Plan, world: World) -> None:
        self._rng = random.Random(f"{seed}/author")
        self._plan = plan
        self._world = world
        self._wanted = self._rng.randint(3, 5)
        self._luckless = random.Random(f"{seed}/luckless").choice(WORKERS)
        self._pauses_ms = (*PAUSES_MS, LONG_PAUSE_MS) if plan.learns else PAUSES_MS
        self._first = [self._start, self._set_job, self._set_job]
        ideas: list[tuple[float, Callable[[int], Action | None]]] = [
            (4, self._kill), (7, self._bounce), (5, self._leave), (5, self._hand_over), (6, self._lose_leader),
            (4, self._set_job), (2, self._remove_job), (2, self._replan), (3, self._finish), (2, self._fall_behind),
        ]  # fmt: skip
        if plan.lossy:
            ideas += [(5, self._weather)]
        if plan.troubles:
            ideas += [(5, self._pause), (5, self._cut_off), (4, self._hush)]
        if plan.namesakes:
            ideas += [(3, self._replace)]
        if plan.learns:
            ideas += [(8, self._lose_in_step), (4, self._leave_soon), (2, self._fail), (2, self._stick)]
        if plan.fails:
            ideas += [(10, self._fail_task), (5, self._try_again)]
        if plan.sparks:
            ideas += [(6, self._end_spark)]
        if plan.sparkless:
            ideas += [(6, self._lack_spark)]
        if plan.moves:
            ideas += [(4, self._move), (2, self._away), (0.3, self._forget)]
        self._ideas = [idea for _, idea in ideas]
        self._weights = [weight for weight, _ in ideas]

    def next(self) -> Action:
        """The next action."""
        rng = self._rng
        after_ms = rng.randint(*rng.choice(self._pauses_ms))
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

    def _protocol(self) -> ConnectProtocol:
        return self._rng.choice(self._plan.protocols)

    def _start(self, after_ms: int) -> Action | None:
        gone = sorted(set(WORKERS) - self._world.live.keys() - self._world.expected)
        return do.Start(after_ms=after_ms, worker=self._rng.choice(gone), protocol=self._protocol()) if gone else None

    def _kill(self, after_ms: int) -> Action:
        return do.Kill(after_ms=after_ms, worker=self._someone())

    def _bounce(self, after_ms: int) -> Action:
        back_ms = self._rng.randint(*self._rng.choice(((10, 2_000), (10, 9_000), (9_000, 30_000))))
        return do.Bounce(after_ms=after_ms, worker=self._someone(), back_ms=back_ms, protocol=self._protocol())

    def _leave(self, after_ms: int) -> Action:
        return do.Leave(after_ms=after_ms, worker=self._someone(), absence=self._rng.choice(ABSENCES))

    def _hand_over(self, after_ms: int) -> Action:
        return do.HandOver(after_ms=after_ms, worker=self._someone(), gap_ms=self._rng.choice([0, 100, 2_500, 15_000]))

    def _replace(self, after_ms: int) -> Action:
        return do.Replace(after_ms=after_ms, worker=self._someone(), cut_off=self._rng.random() < 0.5)

    def _pause(self, after_ms: int) -> Action:
        return do.Pause(after_ms=after_ms, worker=self._someone(), ms=self._rng.choice([500, 5_000, 9_500, 30_000]))

    def _cut_off(self, after_ms: int) -> Action:
        return do.CutOff(after_ms=after_ms, worker=self._someone(), ms=self._rng.choice([2_000, 9_000, 30_000]))

    def _hush(self, after_ms: int) -> Action:
        return do.Hush(after_ms=after_ms, worker=self._someone(), ms=self._rng.choice([500, 5_000, 20_000]))

    def _fall_behind(self, after_ms: int) -> Action:
        return do.FallBehind(after_ms=after_ms, worker=self._someone(), ms=self._rng.choice([500, 5_000]))

    def _lose_leader(self, after_ms: int) -> Action:
        losses = list(Loss) if self._plan.troubles else [Loss.KILLED]
        return do.LoseLeader(
            after_ms=after_ms,
            moment=self._rng.choice(list(Moment)),
            loss=self._rng.choice(losses),
            away_ms=self._rng.choice([3_000, 9_000, 25_000]),
        )

    def _weather(self, after_ms: int) -> Action:
        rng = self._rng
        return do.Weather(
            after_ms=after_ms,
            lose_request=rng.choice([0, 0.02, 0.1]),
            lose_reply=rng.choice([0, 0.02, 0.1]),
            double_reply=rng.choice([0, 0.1]),
            late_reply=rng.choice([0, 0.05]),
            reorder=rng.choice([0, 0.05, 0.2]),
            latency_ms=rng.choice([(0, 3), (1, 40), (0, 400)]),
        )

    def _move(self, after_ms: int) -> Action:
        return do.MoveCoordinator(after_ms=after_ms)

    def _away(self, after_ms: int) -> Action:
        return do.BrokerAway(after_ms=after_ms, ms=self._rng.choice([1_000, 4_000, 12_000]))

    def _forget(self, after_ms: int) -> Action:
        return do.ForgetGroup(after_ms=after_ms)

    def _set_job(self, after_ms: int) -> Action:
        return do.SetJob(after_ms=after_ms, job=self._rng.choice(JOBS), tasks=self._rng.randint(0, 7))

    def _remove_job(self, after_ms: int) -> Action:
        return do.RemoveJob(after_ms=after_ms, job=self._rng.choice(JOBS))

    def _replan(self, after_ms: int) -> Action:
        return do.Replan(after_ms=after_ms, job=self._rng.choice(JOBS))

    def _finish(self, after_ms: int) -> Action | None:
        running = sorted(task for process in self._world.live.values() for task in process.running)
        return do.Finish(after_ms=after_ms, task=self._rng.choice(running)) if running else None

    def _fail_task(self, after_ms: int) -> Action | None:
        running = sorted(task for process in self._world.live.values() for task in process.running)
        kind = self._rng.choice([failures.FailTask, failures.MeetAnotherWriter])
        return kind(after_ms=after_ms, task=self._rng.choice(running)) if running else None

    def _end_spark(self, after_ms: int) -> Action:
        return failures.EndSpark(after_ms=after_ms, worker=self._someone())

    def _lack_spark(self, after_ms: int) -> Action:
        worker = self._someone()
        for_ever = worker == self._luckless and self._rng.random() < 0.5
        ms = None if for_ever else self._rng.choice([100, 8_000, 60_000, 200_000])
        return failures.LackSpark(after_ms=after_ms, worker=worker, ms=ms)

    def _try_again(self, after_ms: int) -> Action:
        job, at_rest = self._rng.choice(JOBS), self._rng.random() < 0.3
        return failures.TryAgain(after_ms=after_ms, job=job, at_rest=at_rest)

    # ---- learner tasks

    def _lose_in_step(self, after_ms: int) -> Action:
        losses = list(Loss) if self._plan.troubles else [Loss.KILLED]
        return learners.LoseInStep(
            after_ms=after_ms,
            role=self._rng.choice(list(Role)),
            step=self._rng.choice(list(Step)),
            loss=self._rng.choice(losses),
            away_ms=self._rng.choice([3_000, 9_000, 25_000]),
        )

    def _leave_soon(self, after_ms: int) -> Action:
        how = self._rng.choice([ControlAction.LEAVE_SOON, ControlAction.LEAVE_SOON, ControlAction.DRAIN])
        return learners.AskToLeave(after_ms=after_ms, worker=self._someone(), how=how)

    def _fail(self, after_ms: int) -> Action:
        return learners.FailWarmUps(after_ms=after_ms, worker=self._someone())

    def _stick(self, after_ms: int) -> Action:
        return learners.StickWarmUps(after_ms=after_ms, worker=self._someone(), ms=self._rng.choice([1_000, 20_000]))
