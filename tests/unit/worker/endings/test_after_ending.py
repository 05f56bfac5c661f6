"""How a worker goes on when a run of it has ended: every row of the table, and the one who does what it says."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from trigger_bench import HANDED_OVER, SAVED, SPEC, FakeTopics, FakeWorker

from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import WorkerPhase
from airflow_provider.values.model import Epoch
from airflow_provider.worker import holding
from airflow_provider.worker.endings.after_ending import TABLE, Finding, Next, Process, what_next
from airflow_provider.worker.endings.ending import Ending, Outcome
from airflow_provider.worker.exit_requests import ExitRequests
from airflow_provider.worker.holding import Held, Holding
from airflow_provider.worker.reporting.observer import UNOBSERVED

TAKEN_OVER = {**SAVED, "member": {"taken over": SAVED["member"]}}
GOES_ON_HERE = {Next.GO_ON: HANDED_OVER, Next.TAKE_OVER: TAKEN_OVER, Next.JOIN: None}
"""With what it goes on, where it does so at once."""


@pytest.mark.parametrize("process", Process)
@pytest.mark.parametrize("ending", Ending)
def test_each_process_knows_what_comes_after_each_ending(process: Process, ending: Ending) -> None:
    assert what_next(process, ending) in Next


def test_nothing_in_the_table_is_idle() -> None:
    assert set(TABLE.values()) == set(Next)
    assert {found for _, _, found in TABLE} == set(Finding)


@pytest.mark.parametrize(("row", "then"), TABLE.items(), ids=str)
def test_only_whose_work_is_over_has_succeeded(row: tuple[Process, Ending, Finding], then: Next) -> None:
    process, ending, found = row
    over = ending in (Ending.DRAINED, Ending.LEFT)
    if then is Next.SUCCEED:
        assert over
    elif over:
        assert (process, found, then) == (Process.TRIGGERER, Finding.NOTHING, Next.RESUME)


async def _run(process: Process, ending: Ending, found: Finding, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The outcome of a worker whose first run ends so, what comes next, and with what it has run."""
    ran_with: list[Mapping[str, Any] | None] = []

    def worker(_settings: Any, _topics: Any, _make: Any, _starter: Any, saved: Any, held_by: Process) -> FakeWorker:
        assert held_by is process
        ran_with.append(saved)
        worker = FakeWorker()
        if len(ran_with) == 1:
            worker.end(ending, saved=HANDED_OVER)
        else:
            worker.end(Ending.DRAINED)
        return worker

    async def find(outcome: Outcome, _topics: GroupTopics) -> Finding:
        return found if outcome.ending is ending else Finding.NOTHING

    monkeypatch.setattr(holding, "SteadyWorker", worker)
    anything: Any = SimpleNamespace(
        make_hands=lambda *_: None,
        spark_starter=lambda _: None,
        taken_over=lambda member: {"taken over": member},
    )
    topics: Any = FakeTopics()
    how = Holding(
        protocol=anything,
        settings=SPEC.settings(WorkerPhase.STABLE),
        place=anything,
        process=process,
        find=find,
        observer=UNOBSERVED,
    )
    outcome, then = await Held(how, ExitRequests(), topics, anything, Epoch(0)).run(SAVED)
    return outcome, then, ran_with


@pytest.mark.parametrize(("row", "then"), TABLE.items(), ids=str)
async def test_it_goes_on_in_its_process_as_the_table_says(
    row: tuple[Process, Ending, Finding], then: Next, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, came, ran_with = await _run(*row, monkeypatch)
    if then in GOES_ON_HERE:
        assert ran_with == [SAVED, GOES_ON_HERE[then]]
        assert outcome.ending is Ending.DRAINED, "it is the last run that counts"
    else:
        assert ran_with == [SAVED]
        assert (outcome.ending, came) == (row[1], then)
