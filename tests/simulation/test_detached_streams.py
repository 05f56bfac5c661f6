"""Streams that go on without a process, on two servers, through whatever may go wrong: a seed, a history."""

from __future__ import annotations

import pytest
from how_many import examples
from simulation.detached.mistakes import MISTAKES, OF_WHO_IS_NOT_ANSWERED, OF_WHO_READS_LATE, Mistake
from simulation.detached.world import (
    BrokenError,
    one_begins_before_it_has_read_of_another,
    one_waits_for_a_server_that_is_away,
    play,
    played,
)
from simulation.seeds import fresh

HISTORIES = 200
ENOUGH = 300
"""So many histories notice each mistake; a few do most of them."""


@pytest.mark.parametrize("tenth", range(10))
def test_no_two_queries_on_a_checkpoint_can_both_commit(tenth: int) -> None:
    """Of each tenth of the histories. Many more: ``make simulate-detached``."""
    for seed in fresh(examples(HISTORIES))[tenth::10]:
        play(seed)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_noticed(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)

    def play_on() -> None:
        for seed in range(ENOUGH):
            play(seed)

    with pytest.raises(BrokenError, match="seed"):
        play_on()


def test_who_had_not_read_of_another_takes_over_from_it() -> None:
    """Of two that begin, the one whose word comes later gives up, and ends the other."""
    played(0, one_begins_before_it_has_read_of_another)


@pytest.mark.parametrize("mistake", OF_WHO_READS_LATE, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_noticed_where_somebody_reads_late(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(BrokenError, match="can both commit"):
        played(0, one_begins_before_it_has_read_of_another)


def test_nothing_is_begun_beside_what_runs_on_a_server_that_is_away() -> None:
    played(0, one_waits_for_a_server_that_is_away)


@pytest.mark.parametrize("mistake", OF_WHO_IS_NOT_ANSWERED, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_noticed_where_a_server_is_away(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(BrokenError, match="can both commit"):
        played(0, one_waits_for_a_server_that_is_away)
