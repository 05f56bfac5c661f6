"""The designs behave as documented, and the page that compares them has their present costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulation.designs.costs import DESIGNS, HISTORIES, MAX_MOVES, Cost, compare
from simulation.designs.learners import LEARNER_DESIGNS, LEARNER_HISTORIES, WARM_MS, compare_learners
from simulation.designs.report import (
    LEARNERS,
    Costs,
    as_markdown,
    as_text,
    draw,
    figures,
    figures_of_learners,
    read_from,
    written_into,
)

pytestmark = pytest.mark.thorough
PAGE = Path(__file__).parents[2] / "docs" / "policies.md"
EAGER, IMMEDIATE, DEFERRED, INCREMENTAL = (design.name for design in DESIGNS)
ONE_BY_ONE, AT_ONCE, QUICK_BOUNCE, BOUNCE, ROLLING, LOSS, LEAVES, NEW_JOB = (history.name for history in HISTORIES)
TASKS, OF_A_WORKER = 48, 12
NO_LEARNERS, AT_REBALANCE, WHEN_READY = (design.name for design in LEARNER_DESIGNS)
A_JOIN, JOINS, TOGETHER, LEAVING = (history.name for history in LEARNER_HISTORIES)


@pytest.fixture(scope="module")
def costs() -> Costs:
    return compare(2)


@pytest.fixture(scope="module")
def learners() -> Costs:
    return compare_learners(2)


def all_of(design: str, costs: Costs) -> list[Cost]:
    return [cost for (_, name), cost in costs.items() if name == design]


def test_eager_stops_everything_whatever_happens(costs: Costs) -> None:
    for history in (ONE_BY_ONE, AT_ONCE, BOUNCE, ROLLING, LEAVES, NEW_JOB):
        assert costs[history, EAGER].most_standing >= TASKS
    assert costs[ONE_BY_ONE, EAGER].stopped == 4 * TASKS


def test_a_join_or_a_new_job_stops_only_tasks_that_move(costs: Costs) -> None:
    for design in (IMMEDIATE, DEFERRED, INCREMENTAL):
        assert costs[AT_ONCE, design].stopped == costs[AT_ONCE, design].moved == TASKS - TASKS // 12 * 4
        assert costs[NEW_JOB, design].stopped == 0


def test_a_return_within_the_session_costs_nothing(costs: Costs) -> None:
    for design in DESIGNS:
        cost = costs[QUICK_BOUNCE, design.name]
        assert (cost.rebalances, cost.moved, cost.stopped) == (0, 0, 0)


def test_on_a_bounce_immediate_moves_twice_and_the_others_nothing(costs: Costs) -> None:
    assert costs[BOUNCE, IMMEDIATE].moved == 2 * OF_A_WORKER
    for design in (DEFERRED, INCREMENTAL):
        assert (costs[BOUNCE, design].moved, costs[BOUNCE, design].stopped) == (0, 0)
        assert costs[BOUNCE, design].stopped_s > costs[BOUNCE, IMMEDIATE].stopped_s


def test_incremental_takes_no_more_than_a_step_in_a_round(costs: Costs) -> None:
    assert max(cost.most_revoked for cost in all_of(INCREMENTAL, costs)) == MAX_MOVES
    assert costs[AT_ONCE, DEFERRED].most_revoked > MAX_MOVES
    for history in (ONE_BY_ONE, AT_ONCE):
        assert costs[history, INCREMENTAL].most_standing <= MAX_MOVES
        assert costs[history, INCREMENTAL].moved <= costs[history, DEFERRED].moved


def test_a_loss_waits_unless_the_policy_is_immediate(costs: Costs) -> None:
    assert costs[LOSS, IMMEDIATE].balanced_s < 15
    for design in (DEFERRED, INCREMENTAL):
        assert 60 < costs[LOSS, design].balanced_s < 90


def test_the_page_has_the_costs_of_today(costs: Costs) -> None:
    """Roughly, because the page has the means of more histories. If it is outdated: ``make compare-designs DOCS=1``."""
    told = read_from(PAGE.read_text())
    assert told.keys() == costs.keys()
    for which, cost in costs.items():
        for said, measured in zip(told[which], map(float, figures(cost)), strict=True):
            assert abs(said - measured) <= max(5, 0.4 * measured), f"{which}: {told[which]}, but it is {figures(cost)}"


def test_a_written_table_can_be_read_back(costs: Costs) -> None:
    page = written_into(PAGE.read_text(), costs)
    assert written_into(page, costs) == page
    assert read_from(page)[BOUNCE, DEFERRED] == tuple(map(float, figures(costs[BOUNCE, DEFERRED])))
    assert as_markdown(costs) in page
    assert len(as_text(costs).splitlines()) == 2 + len(costs)


def test_the_picture_has_a_panel_for_each(costs: Costs) -> None:
    picture = draw(costs)
    assert picture.count("<path ") == len(costs)
    assert all(design.name in picture for design in DESIGNS)


# ---- tasks that warm up


def test_with_learners_a_move_costs_only_a_stop_and_a_start(learners: Costs) -> None:
    for history in (A_JOIN, JOINS, TOGETHER, LEAVING):
        assert learners[history, NO_LEARNERS].longest_s >= WARM_MS / 1000
        assert learners[history, WHEN_READY].longest_s < 5
        assert learners[history, WHEN_READY].stopped == learners[history, WHEN_READY].moved


def test_by_the_rule_of_the_proposal_learned_tasks_stop_more_often_than_they_move(learners: Costs) -> None:
    for history in (A_JOIN, JOINS, LEAVING):
        at_rebalance, when_ready = learners[history, AT_REBALANCE], learners[history, WHEN_READY]
        assert at_rebalance.moved <= at_rebalance.stopped
        assert at_rebalance.stopped_s >= when_ready.stopped_s
    assert learners[JOINS, AT_REBALANCE].stopped > 2 * learners[JOINS, AT_REBALANCE].moved


def test_the_page_has_what_learners_cost_today(learners: Costs) -> None:
    told = read_from(PAGE.read_text(), LEARNERS)
    assert told.keys() == learners.keys()
    for which, cost in learners.items():
        for said, measured in zip(told[which], map(float, figures_of_learners(cost)), strict=True):
            assert abs(said - measured) <= max(10, 0.8 * measured), f"{which}: {told[which]}, but it is {cost}"
