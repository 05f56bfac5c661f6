"""Small scopes are searched to the end without a broken rule.

For larger ones: ``make explore SCOPE=pause``.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import get_type_hints

import pytest
from explore.moves import moves
from explore.normal import COUNTS, FLOORS
from explore.run import report
from explore.scopes import IN_TESTS, SCOPES
from explore.search import explore
from explore.space import Space
from explore.values import Fault, Scope

from airflow_provider.assignment.model import Memory
from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import ConnectProtocol

COUNTED = {
    "seq",
    "awaiting",
    "attempts",
    "coordinator",
    "config_offset",
    "needed_offset",
    "successive_revocations",
    "unchanged",
}
SPANS = {"told_delay_ms", "heartbeat_step", "delay_ms"}


@pytest.mark.parametrize("name", IN_TESTS)
def test_is_searched_to_the_end(name: str) -> None:
    scope = SCOPES[name]
    found = explore(scope)
    assert found.broken is None, report(scope, found, 0)
    assert found.complete
    assert scope.worlds is not None
    assert found.worlds > scope.worlds // 2, (
        "are moves missing? The table in scopes.py has at least twice as many worlds"
    )


@pytest.mark.parametrize("protocol", [ConnectProtocol.COMPATIBLE, ConnectProtocol.EXTENSIBLE])
@pytest.mark.parametrize("seed", range(20))
def test_a_world_and_its_normal_form_have_the_same_successors(seed: int, protocol: ConnectProtocol) -> None:
    """The search relies on this when it visits only one of several equivalent worlds."""
    rng = random.Random(seed)
    space = Space(Scope(name="anything", faults=dict.fromkeys(Fault, 1), protocol=protocol))
    world = space.beginning()
    for _ in range(150):
        following = [space.after(world, move) for move in moves(world, space.scope)]
        normal = space.normal(world)
        assert {space.normal(each) for each in following} == {
            space.normal(space.after(normal, move)) for move in moves(normal, space.scope)
        }
        world = rng.choice(following)


def test_every_number_in_a_state_is_declared_as_a_time_a_count_or_neither() -> None:
    """A time that is not declared as one would not pass, and no two worlds would be equal any more."""
    known = FLOORS.keys() | COUNTS | COUNTED | SPANS
    for value in (MemberState, ClassicRecord, Memory):
        hints = get_type_hints(value)
        numbers = {name for name, hint in hints.items() if _is_number(hint)}
        assert numbers <= known, f"say in normal.py what these fields of {value.__name__} are"


def test_the_page_has_the_scopes_that_were_searched_to_the_end() -> None:
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
    told = dict(re.findall(r"^\| `([\w-]+)` \| .* \| ([\d,]+) \|$", page, re.MULTILINE))
    assert told == {name: f"{scope.worlds:,}" for name, scope in SCOPES.items() if scope.worlds is not None}


def _is_number(hint: object) -> bool:
    hint = getattr(hint, "__supertype__", hint)
    return hint is int or hint == int | None
