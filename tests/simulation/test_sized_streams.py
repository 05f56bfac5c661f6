"""Long histories of groups whose streams differ in the slots that they take: workers join, leave, and return with other
slots, streams come and go.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from simulation.seeds import fresh
from simulation.sized_group import SizedGroup

from airflow_provider.values.model import TaskId, WorkerId

FEW: Final = 40
MANY: Final = 20_000
_SIZES: Final = ((1, 1, 1, 1, 2), (1, 2, 3), (1, 1, 4), (1, 2, 4, 8), (2, 3), (1, 1, 1, 1, 1, 1, 9))


@pytest.mark.parametrize("number", [FEW, pytest.param(MANY, marks=pytest.mark.thorough)])
def test_nothing_waits_beside_room_and_nothing_stops_without_need(number: int) -> None:
    for seed in fresh(number):
        for group, event in history(random.Random(seed)):
            story = f"seed {seed}, {event}: {group}"
            ran = group.places.keys() & group.wanted
            group.stopped.clear()
            group.settle()
            story = f"{story}\nthen {group}"
            assert not group.waits_beside_room, story
            assert set(Counter(group.stopped).values()) <= {1}, f"{story}: stopped twice"
            stopped = ran.intersection(group.stopped)
            assert stopped <= group.places.keys(), f"{story}: {stopped - group.places.keys()} stopped to wait"
            if event == "nothing":
                assert not group.stopped, story


def history(drawn: random.Random) -> Iterator[tuple[SizedGroup, str]]:
    """A group after each event, before its rounds."""
    most, sizes = drawn.choice((3, 4, 8, 16)), drawn.choice(_SIZES)
    slots = {WorkerId(f"w{number}"): drawn.randint(1, most) for number in range(drawn.randint(2, 8))}
    wanted = drawn.choice((0.5, 0.9, 1, 1.2)) * sum(slots.values())
    streams: dict[TaskId, int] = {}
    while sum(streams.values()) < wanted:
        streams[TaskId(f"job-{len(streams) % 3}", len(streams))] = drawn.choice(sizes)
    group = SizedGroup(slots, streams)
    yield group, "all start"
    for _ in range(6):
        event = drawn.choice(("joins", "leaves", "returns", "ends", "new", "nothing"))
        worker = drawn.choice(sorted(group.owned))
        if event == "joins":
            group.joins(WorkerId(f"w{len(group.slots)}"), drawn.randint(1, most))
        elif event == "returns":
            group.joins(worker, drawn.randint(1, most))
        elif event == "leaves" and len(group.owned) > 1:
            group.leaves(worker)
        elif event == "ends":
            group.wanted -= set(drawn.sample(sorted(group.wanted), min(len(group.wanted), drawn.randint(1, 5))))
        elif event == "new":
            for _ in range(drawn.randint(1, 5)):
                stream = TaskId("new", len(group.sizes))
                group.sizes[stream] = drawn.choice(sizes)
                group.wanted |= {stream}
        yield group, event
