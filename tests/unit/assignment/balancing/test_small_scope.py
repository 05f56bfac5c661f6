"""Every group of three workers with one to three slots and four streams that take one to three, however these are
spread at first. What becomes of each is held against all placements that there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from random import Random

import pytest

from airflow_provider.assignment.cooperative import assign
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.policy import IMMEDIATE
from airflow_provider.assignment.shares import grouped
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, Tasks, WorkerId

WORKERS = [WorkerId(name) for name in "abc"]
STREAMS = [TaskId("streams", index) for index in range(4)]
MOST_ROUNDS = 4

Places = Mapping[WorkerId, Tasks]
Running = Mapping[WorkerId, Mapping[TaskId, int]]
"""The streams that run, and the slots that each has."""


@dataclass(frozen=True, slots=True)
class Group:
    """:param places: where each stream is at first; 3: nowhere"""

    slots: tuple[int, ...]
    sizes: tuple[int, ...]
    places: tuple[int, ...]

    @property
    def capacity(self) -> dict[WorkerId, int]:
        return dict(zip(WORKERS, self.slots, strict=True))

    @property
    def size(self) -> dict[TaskId, int]:
        return dict(zip(STREAMS, self.sizes, strict=True))


@dataclass(frozen=True, slots=True)
class Result:
    """:param waits: how many streams have no slot
    :param stops: how many had to stop for it
    :param load: the largest one, in slots that are wanted for each slot
    """

    waits: int
    stops: int
    load: float


def groups() -> Iterator[Group]:
    sizes = combinations_with_replacement((1, 2, 3), 4)
    for each in product(product((1, 2, 3), repeat=3), sizes, product(range(4), repeat=4)):
        yield Group(*each)


def some_groups(number: int) -> list[Group]:
    return Random().sample(list(groups()), number)


def placed(places: Iterable[int]) -> Places:
    at = list(zip(STREAMS, places, strict=True))
    return {worker: frozenset(stream for stream, place in at if place == n) for n, worker in enumerate(WORKERS)}


def started(group: Group, places: Places, running: Running) -> Running:
    """What runs then, as a worker starts it: in order, each with as many slots as it wants or as there are."""
    then = {}
    for worker, slots in group.capacity.items():
        runs = {stream: has for stream, has in running.get(worker, {}).items() if stream in places[worker]}
        for stream in sorted(places[worker] - runs.keys()):
            if free := slots - sum(runs.values()):
                runs[stream] = min(group.size[stream], free)
        then[worker] = runs
    return then


def result(group: Group, places: Places, running: Running, stops: int) -> Result:
    loads = (sum(group.size[stream] for stream in places[worker]) / slots for worker, slots in group.capacity.items())
    return Result(len(STREAMS) - sum(map(len, running.values())), stops, max(loads))


def at_rest(group: Group) -> tuple[Places, Running, int]:
    """The places when a round changes nothing more, what runs there, and how many running streams were stopped."""
    owned, memory, stops = placed(group.places), Memory(), 0
    running = started(group, owned, {})
    costs = Costs(
        slots=group.capacity, large=grouped((stream, size) for stream, size in group.size.items() if size > 1)
    )
    for number in range(MOST_ROUNDS + 1):
        decided = assign(
            Round(
                now_ms=1_000_000 * number,
                generation=GenerationId(2 + number),
                last_completed=GenerationId(1 + number),
                configured=frozenset(STREAMS),
                owned=owned,
                revocation_rank=dict.fromkeys(NO_TASKS.union(*running.values()), 1),
                named=frozenset(WORKERS),
                costs=costs,
            ),
            memory,
            policy=IMMEDIATE,
        )
        if not any((*decided.assigned.values(), *decided.revoked.values())):
            return owned, running, stops
        stops += sum(len(decided.revoked[worker] & running[worker].keys()) for worker in WORKERS)
        owned, memory = decided.target, decided.memory
        running = started(group, owned, running)
    raise AssertionError(f"it does not come to rest: {group}")


def possible(group: Group) -> Iterator[Result]:
    """What would become of each placement, if it were made in one step."""
    before = started(group, placed(group.places), {})
    for places in map(placed, product(range(3), repeat=4)):
        stops = sum(len(before[worker].keys() - places[worker]) for worker in WORKERS)
        yield result(group, places, started(group, places, before), stops)


def check(group: Group) -> None:
    places, running, stops = at_rest(group)
    found, others = result(group, places, running, stops), list(possible(group))
    if found.waits:
        assert all(sum(running[worker].values()) == slots for worker, slots in group.capacity.items()), group
    undisturbed = min(other.waits for other in others if not other.stops)
    assert found.waits <= undisturbed + 1, (group, found)
    if any(other.load <= 1 for other in others):
        assert not found.waits, f"there are slots for all: {group}"
    as_good = [other.stops for other in others if other.waits <= found.waits and other.load <= found.load]
    assert stops <= min(as_good, default=stops) + 2, (group, found)
    if not found.waits:
        best = min(other.load for other in others if not other.waits)
        assert found.load <= best + one_step(group, places, found.load), (group, found)


def one_step(group: Group, places: Places, load: float) -> float:
    """How much the fullest worker would have less without its largest stream."""
    sizes = {worker: [group.size[stream] for stream in places[worker]] for worker in WORKERS}
    return max(
        max(sizes[worker]) / slots
        for worker, slots in group.capacity.items()
        if sizes[worker] and sum(sizes[worker]) / slots == load
    )


def test_some_small_groups_come_as_close_to_the_best_as_one_step() -> None:
    for group in some_groups(400):
        check(group)


@pytest.mark.thorough
def test_all_small_groups_come_as_close_to_the_best_as_one_step() -> None:
    for group in groups():
        check(group)
