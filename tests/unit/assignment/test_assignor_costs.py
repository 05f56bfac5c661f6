"""Tasks of different cost are shared out so that the last one ends early, and move only if it is worth it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import heapreplace
from itertools import islice

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider.assignment import cooperative_assignor, eager_assignor
from airflow_provider.assignment.balancing.by_cost import CostPool
from airflow_provider.assignment.costs import NO_COSTS, Costs
from airflow_provider.assignment.learners import extensible_assignor
from airflow_provider.assignment.learners.model import LearnerMemory, LearnerRound
from airflow_provider.assignment.model import GroupAssignment, Memory, Round
from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Incremental, Policy
from airflow_provider.assignment.shares import grouped
from airflow_provider.state.rounds.move_reasons import why
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, Tasks, WorkerId

W1, W2, W3 = (WorkerId(name) for name in ("w1", "w2", "w3"))
ONE, TWO = GenerationId(1), GenerationId(2)
patient = settings(deadline=None)
costs = st.floats(min_value=0.01, max_value=1_000)


def a(*indexes: int) -> Tasks:
    return frozenset(TaskId("a", index) for index in indexes)


def costing(
    *of: float, left: Mapping[int, float] | None = None, large: Mapping[int, int] | None = None, slots: int = 1
) -> Costs:
    return Costs(
        of={TaskId("a", index): cost for index, cost in enumerate(of)},
        left={TaskId("a", index): rest for index, rest in (left or {}).items()},
        large=grouped((TaskId("a", index), wants) for index, wants in (large or {}).items()),
        slots=dict.fromkeys((W1, W2, W3), slots),
    )


def round_of(owned: Mapping[WorkerId, Tasks], of: Costs, *, configured: Tasks | None = None) -> Round:
    return Round(
        now_ms=0,
        generation=TWO,
        last_completed=ONE,
        configured=frozenset(of.of) if configured is None else configured,
        owned=owned,
        revocation_rank=dict.fromkeys(of.left, 2),
        named=frozenset(owned),
        costs=of,
    )


NOTHING = Memory()


def assign(known: Round, memory: Memory = NOTHING, policy: Policy = IMMEDIATE) -> GroupAssignment:
    return cooperative_assignor.assign(known, memory, policy=policy)


def rounds(known: Round) -> Iterator[tuple[Round, GroupAssignment]]:
    """Rounds, until one changes nothing."""
    memory = NOTHING
    while True:
        outcome = assign(known, memory)
        yield known, outcome
        if outcome.target == known.owned:
            return
        after = GenerationId(known.generation + 1)
        known = replace(known, owned=outcome.target, generation=after, last_completed=known.generation)
        memory = outcome.memory


def both_rounds(known: Round) -> Mapping[WorkerId, Tasks]:
    """Two rounds: tasks that the first one revokes are assigned in the second."""
    first, *others = (outcome for _, outcome in islice(rounds(known), 2))
    for second in others:
        assert not any(first.revoked.values()) or not any(second.revoked.values()), (
            "a round that follows another places what that has taken, and no more"
        )
        if any(first.revoked.values()):
            return second.target
    return first.target


def ends(tasks: Iterable[TaskId], of: Costs, worker: WorkerId) -> list[float]:
    """When each slot is free, if running tasks continue and the longest waiting one always comes next."""
    free_at = [0.0] * of.slots.get(worker, 1)
    running = sorted([(of.left[task], of.size_of.get(task, 1)) for task in tasks if task in of.left], reverse=True)
    waiting = sorted([task for task in tasks if task not in of.left], key=lambda task: (-of.of[task], task))
    for rest, wants in (*running, *((of.of[task], of.size_of.get(task, 1)) for task in waiting)):
        taken = min(wants, len(free_at))
        free_at = sorted([*free_at[taken:], *[free_at[taken - 1] + rest] * taken])
    return free_at


def waiting(worker: WorkerId, tasks: Tasks, of: Costs) -> Iterator[tuple[float, TaskId]]:
    """The tasks that do not begin immediately, and when each ends, if the longest waiting one always comes next."""
    begun = tasks & of.left.keys()
    for task in sorted(tasks - begun, key=lambda task: (-of.of[task], task)):
        free_at = ends(begun, of, worker)
        begins = free_at[min(of.size_of.get(task, 1), len(free_at)) - 1]
        begun |= {task}
        if begins > 0:
            yield begins + of.of[task], task


def number_waiting(shares: Mapping[WorkerId, Tasks], of: Costs) -> int:
    return sum(1 for worker, tasks in shares.items() for _ in waiting(worker, tasks, of))


def makespan(shares: Mapping[WorkerId, Iterable[TaskId]], of: Costs) -> float:
    """When the last one ends."""
    return max(at for worker, tasks in shares.items() for at in ends(tasks, of, worker))


def test_the_longest_tasks_are_spread_and_the_short_ones_fill_up() -> None:
    outcome = assign(round_of({W1: NO_TASKS, W2: NO_TASKS}, costing(10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)))
    assert sorted(map(len, outcome.target.values())) == [1, 10]


def test_each_slot_counts_for_itself() -> None:
    """If one slot is taken for long, the other one is free."""
    of = costing(20, 5, 5, 5, 5, slots=2)
    outcome = assign(round_of({W1: NO_TASKS, W2: NO_TASKS}, of))
    assert makespan(outcome.target, of) == 20


@pytest.mark.slow
@pytest.mark.parametrize("cost", [1.0, 7.5])
@patient
@given(
    owned=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    new=st.integers(0, 8),
    running=st.sets(st.integers(0, 12)),
    policy=st.sampled_from([IMMEDIATE, Deferred(), Incremental(max_moves=2)]),
)
def test_tasks_of_the_same_cost_are_shared_out_by_number(
    cost: float, owned: list[int], new: int, running: set[int], policy: Policy
) -> None:
    tasks = iter(range(100))
    shares = {WorkerId(f"w{place}"): a(*(next(tasks) for _ in range(number))) for place, number in enumerate(owned)}
    of = costing(*[cost] * (sum(owned) + new), left={index: cost / 2 for index in running if index < sum(owned)})
    known, memory = round_of(shares, of), Memory(generation=ONE, assignment=shares, members=frozenset(shares))
    by_number = replace(known, costs=NO_COSTS)
    assert cooperative_assignor.assign(known, memory, policy=policy) == cooperative_assignor.assign(
        by_number, memory, policy=policy
    )
    assert eager_assignor.assign(shares, known.configured, of) == eager_assignor.assign(shares, known.configured)

    def learners(round_: Round) -> LearnerRound:
        return LearnerRound(**round_.by_field)

    learned = LearnerMemory(cooperative=memory)
    assert extensible_assignor.assign(learners(known), learned, policy=policy) == extensible_assignor.assign(
        learners(by_number), learned, policy=policy
    )


@patient
@given(of=st.lists(costs, min_size=1, max_size=40), slots=st.integers(1, 3), workers=st.integers(1, 3))
def test_an_assignment_ends_when_lpt_ends(of: list[float], slots: int, workers: int) -> None:
    """The bound: at most 4/3 of the shortest time, which is no less than the average and the longest task."""
    known = costing(*of, slots=slots)
    members = dict.fromkeys((W1, W2, W3)[:workers], NO_TASKS)
    machines = workers * slots
    shortest = max(max(of), sum(of) / machines)
    for target in (assign(round_of(members, known)).target, eager_assignor.assign(members, frozenset(known.of), known)):
        if len(set(of)) > 1:
            assert makespan(target, known) <= (2 - 1 / machines) * shortest * 1.000001
            assert makespan(target, known) <= 4 / 3 * best(of, machines) * 1.000001


def best(of: list[float], machines: int) -> float:
    """No more than the shortest time, times 3/4: what LPT itself takes."""
    free_at = [0.0] * machines
    for cost in sorted(of, reverse=True):
        heapreplace(free_at, free_at[0] + cost)
    return max(free_at)


@st.composite
def half_done_of(draw: st.DrawFn, most_slots: int = 2, wants: tuple[int, ...] = (1,)) -> Round:
    """Workers with some tasks that run, some that wait, and some that are new.

    :param most_slots: that workers have
    :param wants: how many slots a task may take
    """
    slots = draw(st.integers(1, most_slots))
    of = draw(st.lists(costs, min_size=2, max_size=24))
    large = {index: wanted for index in range(len(of)) if (wanted := draw(st.sampled_from(wants))) > 1}
    places = draw(st.lists(st.sampled_from([W1, W2, W3, None]), min_size=len(of), max_size=len(of)))
    owned = {worker: a(*(index for index, place in enumerate(places) if place == worker)) for worker in (W1, W2, W3)}
    left = {}
    for tasks in owned.values():
        free = draw(st.integers(0, slots))
        for task in sorted(tasks):
            free -= min(slots, large.get(task.index, 1))
            if free < 0:
                break
            left[task.index] = of[task.index] * draw(st.floats(0.01, 1))
    return round_of(owned, costing(*of, left=left, large=large, slots=slots))


def by_cost(known: Round) -> bool:
    return bool(known.costs.among(known.configured))


of_one_slot = half_done_of().filter(by_cost)
half_done = of_one_slot | half_done_of(4, (1, 1, 2, 4, 9)).filter(by_cost)


@patient
@given(half_done)
def test_no_running_task_moves_and_the_group_comes_to_rest(known: Round) -> None:
    """Each round that revokes something makes machines less late by a tenth of the level, or lets tasks begin."""
    level, most, fewer = level_of(known), math.inf, math.inf
    for now, outcome in rounds(known):
        assert all(now.owned[worker] & now.costs.left.keys() <= tasks for worker, tasks in outcome.target.items())
        if NO_TASKS.union(*now.owned.values()) == known.configured:
            late, wait = lateness(now.owned, known.costs, level), number_waiting(now.owned, known.costs)
            assert late < most or wait < fewer
            revokes = any(outcome.revoked.values())
            most, fewer = (late - 0.099 * level, wait) if revokes else (math.inf, math.inf)
        elif not any(outcome.revoked.values()):
            assert NO_TASKS.union(*outcome.target.values()) == known.configured


def level_of(known: Round) -> float:
    """When everything would be done if each slot were busy until then."""
    of = known.costs
    running = of.left.keys() & NO_TASKS.union(*known.owned.values())
    free_at = sorted(at for worker, tasks in known.owned.items() for at in ends(tasks & running, of, worker))
    most = max(map(of.slots.__getitem__, known.owned))
    work = sum(of.of[task] * min(of.size_of.get(task, 1), most) for task in known.configured - running)
    return min((work + sum(free_at[:number])) / number for number in range(1, len(free_at) + 1))


def lateness(shares: Mapping[WorkerId, Tasks], of: Costs, level: float) -> float:
    """For how long slots are busy after 110 % of the level, summed up."""
    return sum(max(0, at - 1.1 * level) for worker, tasks in shares.items() for at in ends(tasks, of, worker))


@patient
@given(of_one_slot)
def test_no_worker_is_later_than_without_moves_by_more_than_one_task(known: Round) -> None:
    """Waiting tasks move to where they end sooner. This delays others by at most the longest waiting task."""
    mine = NO_TASKS.union(*known.owned.values())
    kept = replace(known, configured=mine)
    waiting = [known.costs.of[task] for task in mine - known.costs.left.keys()]
    before = makespan(known.owned, known.costs)
    assert makespan(both_rounds(kept), known.costs) <= before + max(waiting, default=0)


def test_a_task_that_takes_all_slots_counts_for_all_of_them() -> None:
    """By number, or by cost alone, one worker might have had both."""
    of = costing(*[10] * 10, large={0: 4, 1: 4}, slots=4)
    target = assign(round_of({W1: NO_TASKS, W2: NO_TASKS}, of)).target
    assert [(len(tasks), len(tasks & a(0, 1))) for tasks in target.values()] == [(5, 1), (5, 1)]
    assert makespan(target, of) == 20
    target = eager_assignor.assign((W1, W2), frozenset(of.of), of)
    assert [(len(tasks), len(tasks & a(0, 1))) for tasks in target.values()] == [(5, 1), (5, 1)]


def test_no_slot_is_free_if_tasks_run_in_all_of_them() -> None:
    of = costing(100, 30, 20, 20, 20, left={0: 100, 1: 30}, large={0: 4}, slots=4)
    target = both_rounds(round_of({W1: a(0, 2, 3, 4), W2: a(1)}, of))
    assert target == {W1: a(0), W2: a(1, 2, 3, 4)}


def test_a_stream_with_all_slots_leaves_none_to_others() -> None:
    stream = TaskId("s", 0)
    of = replace(costing(5, 4, 3, 2, slots=2), large={2: frozenset([stream])})
    known = round_of({W1: frozenset({stream}), W2: NO_TASKS}, of, configured=frozenset({stream, *of.of}))
    for asked in (known, replace(known, stays=frozenset({stream}))):
        assert both_rounds(asked) == {W1: frozenset({stream}), W2: frozenset(of.of)}
    assert eager_assignor.assign((W1, W2), known.configured, of) == both_rounds(known)


def test_a_worker_that_joins_gets_waiting_tasks_and_no_running_one() -> None:
    of = costing(50, 40, 3, 2, 1, left={0: 50, 1: 40})
    target = both_rounds(round_of({W1: a(0, 2, 3), W2: a(1, 4), W3: NO_TASKS}, of))
    assert target == {W1: a(0), W2: a(1), W3: a(2, 3, 4)}


def test_nothing_moves_for_a_small_gain() -> None:
    of = costing(10, 9.5, 1, left={0: 10, 1: 9.5})
    assert not any(assign(round_of({W1: a(0, 2), W2: a(1)}, of)).revoked.values())
    late_by_little = costing(10, 9, 1.3, left={0: 10, 1: 9})
    assert not any(assign(round_of({W1: a(0, 2), W2: a(1)}, late_by_little)).revoked.values())
    sooner = costing(10, 5, 1, left={0: 10, 1: 5})
    assert assign(round_of({W1: a(0, 2), W2: a(1)}, sooner)).revoked[W1] == a(2)


def test_the_reason_of_a_move_by_cost_names_no_number_of_tasks() -> None:
    """A worker may have fewer tasks than others, and more work."""
    (move,) = assign(round_of({W1: a(0, 1), W2: a(2, 3, 4)}, costing(9, 9, 0.1, 0.1, 0.1, left={0: 9, 2: 0.1}))).moves
    assert (move.tasks, why(move)) == (a(1), "w1 has more than its share of the work")


def test_steps_limit_the_moves_and_the_longest_task_goes_first() -> None:
    of = costing(50, 4, 3, 2, left={0: 50})
    known = round_of({W1: a(0, 1, 2, 3), W2: NO_TASKS}, of)
    assert assign(known, policy=Incremental(max_moves=1)).revoked[W1] == a(1)


def test_steps_take_no_task_that_would_come_back_without_the_others() -> None:
    """Both would have to move, in one step."""
    swap = costing(1, 2, 3, 5, left={0: 1, 1: 2})
    known = round_of({W1: a(0, 2), W2: a(1, 3)}, swap)
    memory = NOTHING
    for now_ms in range(0, 5_000, 1_000):
        outcome = assign(replace(known, now_ms=now_ms), memory, policy=Incremental(max_moves=1, move_interval_ms=1_000))
        assert outcome.target == known.owned
        memory = outcome.memory


def test_planners_and_streams_are_shared_out_by_number() -> None:
    """They have no cost."""
    streams = frozenset(TaskId("s", index) for index in range(-1, 4))
    known = round_of({W1: NO_TASKS, W2: NO_TASKS}, costing(10, 1, 1), configured=streams | a(-1, 0, 1, 2))
    target = assign(known).target
    assert [len([task for task in tasks if task in streams and task.index >= 0]) for tasks in target.values()] == [2, 2]
    assert [len([task for task in tasks if task.is_planner]) for tasks in target.values()] == [1, 1]
    assert {a(0), a(1, 2)} == {tasks & a(0, 1, 2) for tasks in target.values()}


def test_the_waiting_tasks_of_a_draining_worker_go_where_they_begin_first() -> None:
    of = costing(9, 5, 4, 1, left={0: 9})
    known = replace(round_of({W1: a(0, 1), W2: a(2), W3: a(3)}, of), draining=frozenset({W1}))
    assert both_rounds(known) == {W1: a(0), W2: a(2), W3: a(1, 3)}


def test_a_worker_that_returns_gets_its_tasks_unless_they_end_sooner_elsewhere() -> None:
    of = costing(9, 8, 3, 1, 1)
    pool = CostPool({W1: NO_TASKS, W2: a(0)}, {W1: a(1, 2)}, a(3, 4), of)
    assert pool.returned == {W1: a(1)} or pool.returned == {W1: a(1, 2)}
    given_out = pool.place(a(3, 4))
    assert NO_TASKS.union(*pool.returned.values()).union(*given_out.values()) == a(1, 2, 3, 4)


def test_each_worker_that_a_bridge_stands_for_has_one_slot() -> None:
    of = replace(costing(4, 3, 2, 1.5), slots={W2: 1}, stands_for={W1: 3})
    known = round_of({W1: NO_TASKS, W2: NO_TASKS}, of)
    outcome = cooperative_assignor.assign(known, Memory(), policy=IMMEDIATE)
    assert {worker: len(tasks) for worker, tasks in outcome.target.items()} == {W1: 3, W2: 1}


def test_a_worker_whose_slots_are_full_of_streams_gets_no_other_tasks() -> None:
    streams = frozenset(TaskId("s", index) for index in range(2))
    of = costing(5, 4, 3, 2, slots=2)
    configured = streams | frozenset(of.of)
    known = round_of({W1: streams, W2: NO_TASKS}, of, configured=configured)
    known = replace(known, stays=streams)
    assert both_rounds(known) == {W1: streams, W2: frozenset(of.of)}
    waits = replace(known, owned={W1: streams | a(0, 1), W2: a(2, 3)})
    assert both_rounds(waits) == {W1: streams, W2: frozenset(of.of)}
    everywhere = replace(of, slots=dict.fromkeys((W1, W2), 0))
    assert {len(tasks) for tasks in eager_assignor.assign((W1, W2), frozenset(of.of), everywhere).values()} == {2}


class Told(Tasks):
    """Tasks in a given order: sets have another order in each process."""

    order: list[TaskId]

    def __new__(cls, order: Iterable[TaskId]) -> Told:
        told = super().__new__(cls, order)
        told.order = list(order)
        return told

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self.order)


@pytest.mark.slow
@patient
@given(half_done, st.randoms(use_true_random=False))
def test_the_result_does_not_depend_on_the_order_of_the_input(known: Round, drawn: random.Random) -> None:
    """With equal costs, most depends on the order."""
    of = {task: math.ceil(cost / 400) for task, cost in known.costs.of.items()}
    new = WorkerId("nobody")
    owned = {**known.owned, new: known.configured.difference(*known.owned.values())}
    pools = []
    for _ in range(2):
        told = {worker: Told(drawn.sample(sorted(tasks), len(tasks))) for worker, tasks in owned.items()}
        kept = {worker: told[worker] for worker in drawn.sample(sorted(known.owned), len(known.owned))}
        pools.append(CostPool(kept, {}, told[new], replace(known.costs, of=of, left={})))
    first, second = pools
    assert first.relieve({}) == second.relieve({})
    assert first.place(known.configured) == second.place(known.configured)


@patient
@given(half_done)
def test_nothing_moves_for_less_than_a_tenth_of_the_level_unless_it_begins_then(known: Round) -> None:
    mine = of_what_is_had(known)
    level = level_of(mine)
    if lateness(mine.owned, mine.costs, level) < 0.1 * level:
        before, after = (number_waiting(shares, mine.costs) for shares in (mine.owned, both_rounds(mine)))
        assert before - after >= sum(map(len, assign(mine).revoked.values()))


@patient
@given(half_done)
def test_nothing_that_ends_late_waits_beside_slots_that_it_could_have(known: Round) -> None:
    mine = of_what_is_had(known)
    level = level_of(mine)
    for last, outcome in rounds(mine):
        at_rest, of = outcome.target, last.costs
    idle = {worker: ends(tasks, of, worker).count(0) for worker, tasks in at_rest.items()}
    for worker, tasks in at_rest.items():
        for end, task in waiting(worker, tasks, of):
            wants = of.size_of.get(task, 1)
            assert end <= 1.1 * level * 1.000001 or all(
                free < min(wants, of.slots[other]) for other, free in idle.items()
            )


def test_a_short_task_moves_to_an_idle_worker_although_the_gain_is_small() -> None:
    of = costing(30, 1, left={0: 30})
    assert both_rounds(round_of({W1: a(0, 1), W2: NO_TASKS}, of)) == {W1: a(0), W2: a(1)}


@patient
@given(half_done)
@example(
    round_of(
        {W1: a(*range(4), *range(5, 19), 21, 22), W2: a(4, 19, 20, 23), W3: NO_TASKS},
        costing(
            *(1, 1, 144, 526, 665, 11, 24, 1, 588, 704, 964, 265, 379, 452, 8, 218, 1, 536, 1, 1, 1, 1, 1, 8),
            large={17: 2, 21: 2, 22: 2},
            slots=2,
        ),
    )
)
def test_no_revoked_task_comes_back_to_its_worker(known: Round) -> None:
    """Of very many, a few may."""
    first, *others = (outcome for _, outcome in islice(rounds(of_what_is_had(known)), 2))
    for second in others:
        assert not any(second.assigned[worker] & tasks for worker, tasks in first.revoked.items())


def of_what_is_had(known: Round) -> Round:
    """The same round without new tasks."""
    return replace(known, configured=NO_TASKS.union(*known.owned.values()))
