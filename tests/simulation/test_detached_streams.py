"""Random histories of streams that go on without a process, on two servers, with faults: one per seed."""

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
"""Each mistake is noticed within this number of histories, most within a few."""


@pytest.mark.parametrize("tenth", range(10))
def test_no_two_queries_on_a_checkpoint_can_both_commit(tenth: int) -> None:
    """Each test plays a tenth of the histories. For many more: ``make simulate-detached``."""
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


def test_a_worker_that_reads_late_of_another_start_ends_that_start() -> None:
    """Two workers start the same stream, and the second reads late of the first: it ends the first one's query."""
    played(0, one_begins_before_it_has_read_of_another)


@pytest.mark.parametrize("mistake", OF_WHO_READS_LATE, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_noticed_where_somebody_reads_late(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(BrokenError, match="can both commit"):
        played(0, one_begins_before_it_has_read_of_another)


def test_no_query_begins_while_one_runs_on_a_server_that_is_away() -> None:
    played(0, one_waits_for_a_server_that_is_away)


@pytest.mark.parametrize("mistake", OF_WHO_IS_NOT_ANSWERED, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_noticed_where_a_server_is_away(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(BrokenError, match="can both commit"):
        played(0, one_waits_for_a_server_that_is_away)
