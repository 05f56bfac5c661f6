"""All groups of three workers with 1 to 3 slots and four streams of 1 to 3, and what may happen to them: against the
best that is found by trying all places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, islice, product
from typing import Final

import pytest
from simulation.seeds import fresh
from simulation.sized_group import Places, SizedGroup

from airflow_provider.values.model import TaskId, WorkerId

_WORKERS: Final = [WorkerId(f"w{number}") for number in range(3)]
_STREAMS: Final = [TaskId("a", index) for index in range(4)]
_ALL: Final = list(
    product(
        combinations_with_replacement((1, 2, 3), len(_WORKERS)), combinations_with_replacement((1, 2, 3), len(_STREAMS))
    )
)
_FEW: Final = 15
"""Each run takes one group in so many."""

Groups = Iterator[SizedGroup]


def groups(share: int) -> Groups:
    for slots, sizes in islice(_ALL, fresh(1)[0] % share, None, share):
        yield SizedGroup(dict(zip(_WORKERS, slots, strict=True)), dict(zip(_STREAMS, sizes, strict=True)))


def at_rest(share: int) -> Iterator[tuple[SizedGroup, WorkerId]]:
    for worker in _WORKERS:
        for group in groups(share):
            group.settle()
            yield group, worker


def one_joins(share: int) -> Groups:
    for worker in _WORKERS:
        for group in groups(share):
            del group.owned[worker]
            group.settle()
            group.joins(worker, group.slots[worker])
            yield group


def one_leaves(share: int) -> Groups:
    for group, worker in at_rest(share):
        group.leaves(worker)
        yield group


def one_drains(share: int) -> Groups:
    for group, worker in at_rest(share):
        group.draining = frozenset({worker})
        yield group


def one_returns_with_a_slot_less(share: int) -> Groups:
    for group, worker in at_rest(share):
        if group.slots[worker] > 1:
            group.joins(worker, group.slots[worker] - 1)
            yield group


def a_stream_is_new(share: int) -> Groups:
    for stream in _STREAMS:
        for group in groups(share):
            group.wanted -= {stream}
            group.settle()
            group.wanted |= {stream}
            yield group


def a_stream_ends(share: int) -> Groups:
    for stream in _STREAMS:
        for group in groups(share):
            group.settle()
            group.wanted -= {stream}
            yield group


@pytest.mark.parametrize("share", [pytest.param(_FEW, id="few"), pytest.param(1, id="all", marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "event",
    [
        groups,
        one_joins,
        one_leaves,
        one_drains,
        one_returns_with_a_slot_less,
        a_stream_is_new,
        a_stream_ends,
    ],
    ids=lambda event: event.__name__,
)
def test_it_is_within_one_step_of_the_best(event: Callable[[int], Groups], share: int) -> None:
    for group in event(share):
        before = str(group)
        group.stopped.clear()
        ran = {task: worker for task, worker in group.places.items() if task in group.wanted}
        stay = {task: worker for task, worker in ran.items() if worker in group.staying}
        group.settle()
        story = f"{before}\nthen {group}"
        assert not group.waits_beside_room, story
        assert not group.stopped or group.places.keys() >= ran.keys(), f"{story}: stopped to wait"
        load = group.load({task: worker for worker in group.staying for task in group.owned[worker]})
        best = [(group.load(places), sum(places[task] != stay[task] for task in stay)) for places in all_places(group)]
        assert load < min(best)[0] + step(group), story
        needed = min((moves for as_good, moves in best if as_good <= load), default=0)
        assert len(group.stopped) <= needed + 1, story


def all_places(group: SizedGroup) -> Iterator[Places]:
    """All places where each stream could have its slots, as far as a worker has so many."""
    most = max(group.slots[worker] for worker in group.staying)
    tasks = sorted(group.wanted.difference(*(group.owned[worker] for worker in group.draining)))
    large = [
        [worker for worker in group.staying if group.slots[worker] >= min(most, group.sizes[task])] for task in tasks
    ]
    return (dict(zip(tasks, workers, strict=True)) for workers in product(*large))


def step(group: SizedGroup) -> Fraction:
    """The most by which one stream changes the load of a worker."""
    return max(
        Fraction(min(group.sizes[task], group.slots[worker]), group.slots[worker])
        for task in group.wanted
        for worker in group.staying
    )
