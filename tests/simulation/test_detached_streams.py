"""Streams that go on without a process, on two servers, through whatever may go wrong: a seed, a history."""

from __future__ import annotations

import pytest
from how_many import examples
from simulation.detached.mistakes import MISTAKES, Mistake
from simulation.detached.world import BrokenError, play

HISTORIES = 40
ENOUGH = 300
"""So many histories notice each mistake; a few do most of them."""


@pytest.mark.parametrize("tenth", range(10))
def test_no_two_queries_on_a_checkpoint_can_both_commit(tenth: int) -> None:
    each = examples(HISTORIES) // 10
    for seed in range(tenth * each, (tenth + 1) * each):
        play(seed)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_noticed(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(BrokenError, match="can both commit"):
        for seed in range(ENOUGH):
            play(seed)
