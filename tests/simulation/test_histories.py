"""Seeded random histories: whatever happens, no task runs twice at a time; and in peace everything comes right.

A failing seed replays exactly: ``History(seed, plan).run()``; the assertion carries the story.
"""

from __future__ import annotations

import pytest
from simulation.histories import History, Plan

from airflow_provider.membership.model import ConnectProtocol
from airflow_provider.membership.policy import IMMEDIATE

PLANS = {
    "bounces, joins, leaves, job changes": Plan(lossy=False, pauses=False, moves=False, namesakes=False),
    "and lost, late, doubled responses": Plan(pauses=False, moves=False, namesakes=False),
    "and pauses, partitions, namesakes, a coordinator that moves": Plan(),
    "no scheduled delay": Plan(policy=IMMEDIATE),
    "eager": Plan(protocols=(ConnectProtocol.EAGER,), namesakes=False),
    "eager and cooperative workers": Plan(
        protocols=(ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE), namesakes=False
    ),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("first_seed", range(0, 60, 20))
def test_history(name: str, first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 20):
        world = History(seed, PLANS[name]).run()
        world.check_records()
        assert max(world.spread()) <= 1, f"{name}: {world.spread()}\n{world.story()}"
