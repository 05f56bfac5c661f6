"""Workers are restarted with either protocol while anything may die, and no task runs twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from simulation.bridged.histories import WORKERS, History
from simulation.bridged.world import BridgedWorld
from simulation.failing import HistoryError

from airflow_provider.group.declarative.coordinator import values
from airflow_provider.group.declarative.coordinator.events import BridgeClaims, ToBridge
from airflow_provider.group.declarative.coordinator.handlers import bridging
from airflow_provider.group.declarative.coordinator.turn import Turn
from airflow_provider.group.declarative.coordinator.unrecorded_state import Desk
from airflow_provider.group.declarative.protocol.model import GroupEpoch
from airflow_provider.values.model import Tasks

HISTORIES = 8
HUNTED = 80
"""A mistake must be noticed within this number of histories."""


def test_a_group_rolls_from_one_protocol_to_the_other_and_back() -> None:
    world = BridgedWorld(random.randrange(2**32))
    world.configure("a", 6)
    for worker in WORKERS:
        world.start_classic(worker)
    comes_to_rest(world)
    for worker in WORKERS:
        world.classic.leave(worker)
        world.run(5_000)
        world.start_declarative(f"d{worker}")
        comes_to_rest(world)
    assert {name[0] for names in world.running.values() for name in names} == {"d"}
    for worker in WORKERS:
        world.start_classic(worker)
        world.declarative.live[f"d{worker}"].leave()
        world.run(5_000)
        comes_to_rest(world)
    assert {name[0] for names in world.running.values() for name in names} == {"w"}
    assert world.moves >= 12


def comes_to_rest(world: BridgedWorld) -> None:
    assert world.comes_to(lambda: world.at_rest and world.is_even, within_ms=120_000), world.classic.story()


def test_no_task_runs_twice_and_all_finally_run_whatever_dies() -> None:
    moves = 0
    for _ in range(HISTORIES):
        history = History(random.randrange(2**32))
        history.run()
        moves += history.world.moves
    assert moves > HISTORIES


# ---- deliberate mistakes


def _lets_go_of_what_runs(desk: Desk, asked: Tasks) -> ToBridge:
    members = len(desk.state.members) + len(desk.state.lingering)
    return ToBridge(members=members, wants_epoch=desk.wants_epoch, free=asked - desk.to_run)


def _has_epochs_of_its_own(turn: Turn, desk: Desk) -> None:
    state = desk.state
    epoch = GroupEpoch(max(state.epoch + 1, desk.bridge.epoch if desk.bridge is not None else 0))
    if desk.unrecorded is not None:
        turn.write(desk, values.configured_record(state.group_id, epoch, desk.unrecorded))
        desk.unrecorded = None
    turn.write(desk, values.epoch_record(state.group_id, epoch))


Mistake = tuple[Any, str, Callable[..., object], int]
MISTAKES: dict[str, Mistake] = {
    "sessions reach beyond the lease": (Turn, "session_ms", lambda turn, desk: turn._session_ms(desk), 74),
    "the bridge lets go of what runs": (bridging, "to_bridge", _lets_go_of_what_runs, 1),
    "the next coordinator's bridge claims nothing": (bridging, "claims", lambda _desk: BridgeClaims(), 4),
    "who has what others may have stays": (bridging, "_fence_holders_of_others", lambda *_: None, 29),
    "epochs are of the group's own": (Turn, "begin_epoch", _has_epochs_of_its_own, 4),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_bridge_is_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong, first = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((HistoryError, AssertionError)):
        hunt(first)


def hunt(first: int) -> None:
    for seed in (first, *range(HUNTED)):
        History(seed).run()
