"""Detached streams on two servers, with everything that may go wrong. Each seed gives one history."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from how_many import examples
from simulation.detached.mistakes import MISTAKES, WHEN_A_SERVER_ENDS, WHEN_A_SERVER_IS_AWAY, WHEN_TWO_BEGIN, Mistake
from simulation.detached.world import (
    BrokenError,
    World,
    a_server_ends_under_a_start,
    a_server_that_ends,
    a_task_waits_for_a_server_that_is_away,
    play,
    played,
    the_answer_to_a_start_is_lost,
    turns_of_a_start,
    two_workers_begin_the_same_task,
)
from simulation.seeds import fresh, one_in

HISTORIES = 50
NAMED = {mistake.__name__: mistake for mistake in MISTAKES}
ENOUGH = 300
"""This many histories notice each mistake; for most mistakes a few are enough."""


@pytest.mark.parametrize("tenth", range(10))
def test_no_two_queries_on_a_checkpoint_can_both_commit(tenth: int) -> None:
    """One tenth of the histories each. For many more: ``make simulate-detached``."""
    for seed in fresh(examples(HISTORIES))[tenth::10]:
        play(seed)


@pytest.mark.parametrize("name", list(one_in(4, NAMED)))
def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    NAMED[name](monkeypatch)

    def play_on() -> None:
        for seed in range(ENOUGH):
            play(seed)

    with pytest.raises(BrokenError, match="seed"):
        play_on()


def test_of_two_workers_that_begin_a_task_the_one_whose_record_counts_takes_over() -> None:
    """The worker whose record comes later gives up its own start, and ends the query of the other."""
    played(0, two_workers_begin_the_same_task)


@pytest.mark.parametrize("mistake", WHEN_TWO_BEGIN, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_noticed_when_two_workers_begin(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(BrokenError, match="can both commit"):
        played(0, two_workers_begin_the_same_task)


def test_nothing_is_started_beside_a_query_on_a_server_that_is_away() -> None:
    played(0, a_task_waits_for_a_server_that_is_away)


@pytest.mark.parametrize("mistake", WHEN_A_SERVER_IS_AWAY, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_noticed_when_a_server_is_away(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(BrokenError, match="can both commit"):
        played(0, a_task_waits_for_a_server_that_is_away)


@pytest.mark.parametrize("seed", list(range(10)))
@pytest.mark.parametrize("history", [a_server_ends_under_a_start, the_answer_to_a_start_is_lost])
def test_a_task_whose_query_is_unknown_is_not_said_to_run(
    history: Callable[[World], Coroutine[Any, Any, None]], seed: int
) -> None:
    played(seed, history)


# ---- a server that ends under a start

A_START = 1
"""A seed in which a start takes no long moment."""


def each_end(*, times: int, back_s: float = 0) -> None:
    for turn in range(1, turns_of_a_start(A_START)):
        played(A_START, a_server_that_ends(turn=turn, back_s=back_s, times=times))


@pytest.mark.parametrize(
    ("times", "back_s"),
    [(1, 0), pytest.param(1, 5, marks=pytest.mark.thorough), pytest.param(4, 5, marks=pytest.mark.thorough)],
)
def test_wherever_in_a_start_its_server_ends_nothing_is_said_to_run_for_long_without_a_query(
    times: int, back_s: float
) -> None:
    """Each turn of the loop until the query is known."""
    each_end(times=times, back_s=back_s)


@pytest.mark.parametrize("mistake", WHEN_A_SERVER_ENDS, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_noticed_when_a_server_ends(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(BrokenError, match=r"is said to run|it runs again"):
        each_end(times=1)
