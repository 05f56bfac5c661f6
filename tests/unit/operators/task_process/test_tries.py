"""What an operator's worker says of its absence: whether Airflow tries it again, and how long that takes."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
from airflow_values import URL, context
from operator_bench import NO_LINK, SETTINGS, FakeRun, outcome, worker_operator
from test_operators_worker import group, runs
from trigger_bench import SPEC, STORY
from waiting import DEADLINE_S, eventually

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.integration.airflow_api.task_instance import TOLD_TO_END, TaskPage
from airflow_provider.operators.task_process import worker_run
from airflow_provider.operators.task_process.tries import Tries, tries_of
from airflow_provider.operators.task_process.worker_run import WorkerRun
from airflow_provider.state.records import WorkerPhase
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.equipment import Equipment

__all__ = ["group", "runs"]

EQUIPMENT = Equipment(runner="noop", allowed=(), checkpoint_root="/checkpoints", spark_master="local")
MARGIN_MS = 60_000
A_DAY_MS = 24 * 60 * 60 * 1000
_A_FLAG = find_spec("airflow.sdk.configuration") is None
KILLED = Absence(left=LeaveReason.KILLED)
RESTARTING = Absence(left=LeaveReason.RESTARTING, returns_ms=5_000)


def ti(try_number: int = 1, max_tries: int = 3) -> Any:
    return SimpleNamespace(try_number=try_number, max_tries=max_tries)


@pytest.mark.parametrize(
    ("try_number", "max_tries", "again"), [(1, 0, False), (1, 3, True), (3, 3, True), (4, 3, False), (6, 5, False)]
)
def test_the_last_try_is_never_back(try_number: int, max_tries: int, again: bool) -> None:
    tries = tries_of(worker_operator(retry_delay=timedelta(seconds=2)), ti(try_number, max_tries))
    assert tries.returns_ms == (2_000 + MARGIN_MS if again else 0)
    assert tries.wait_ms == 2_000 + MARGIN_MS, "but who clears it starts it again"


@pytest.mark.parametrize(
    ("parameters", "try_number", "wait_ms"),
    [
        ({"retry_delay": timedelta(minutes=5)}, 4, 300_000),
        ({"retry_delay": 7}, 1, 7_000),
        ({"retry_delay": 10, "retry_exponential_backoff": 2}, 1, 20_000),
        ({"retry_delay": 10, "retry_exponential_backoff": 2}, 3, 80_000),
        ({"retry_delay": 10, "retry_exponential_backoff": True}, 3, 80_000),
        ({"retry_delay": 10, "retry_exponential_backoff": 2, "max_retry_delay": timedelta(seconds=30)}, 3, 30_000),
        ({"retry_delay": 10, "max_retry_delay": timedelta(seconds=5)}, 3, 10_000),
        ({"retry_delay": 0, "retry_exponential_backoff": 3}, 1, 2_000),
        ({"retry_delay": 10, "retry_exponential_backoff": 2}, 40, A_DAY_MS),
        ({"retry_delay": 10, "retry_exponential_backoff": 2}, 40_000, A_DAY_MS),
    ],
)
def test_how_long_it_takes_at_most_until_a_try_is_followed_by_the_next(
    parameters: dict[str, Any], try_number: int, wait_ms: int
) -> None:
    if _A_FLAG and type(parameters.get("retry_exponential_backoff")) is int:
        pytest.skip("before Airflow 3.2 it is a flag")
    tries = tries_of(worker_operator(**parameters), ti(try_number, max_tries=10**6))
    assert tries.returns_ms == wait_ms + MARGIN_MS


def test_it_is_what_airflow_waits_for_at_most() -> None:
    """Airflow's own arithmetic, which depends on the try's hash."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.sdk import timezone

    began = timezone.utcnow()
    backoffs: list[Any] = [True, False] if _A_FLAG else [2, 3.5, 0]
    for backoff in backoffs:
        operator = worker_operator(retry_delay=timedelta(seconds=3), retry_exponential_backoff=backoff)
        for number in range(1, 9):
            asked: Any = SimpleNamespace(
                task=operator, try_number=number, dag_id="d", task_id=f"w{number}", logical_date=None,
                end_date=began, retry_delay_override=None, log=None,
            )  # fmt: skip
            next_try: datetime = TaskInstance.next_retry_datetime(asked)  # type: ignore[no-untyped-call]  # Airflow's
            waits = (next_try - began).total_seconds() * 1000
            longest = (tries_of(operator, ti(number, 99)).wait_ms or 0) - MARGIN_MS
            assert longest / 2 <= waits <= longest


def test_a_retry_policy_decides_when_the_try_has_failed() -> None:
    operator = worker_operator()
    policy: Any = object()
    operator.retry_policy = policy
    assert tries_of(operator, ti()) == Tries(again=True, wait_ms=None)
    assert tries_of(operator, ti(max_tries=0)).returns_ms == 0


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize(
    ("state", "says"),
    [
        *((state, KILLED) for state in ("failed", "success", "skipped", "removed", None)),
        *((state, RESTARTING) for state in ("restarting", "up_for_retry", "scheduled", "queued")),
    ],
)
def test_what_a_user_does_to_a_task_says_whether_it_is_run_again(state: str | None, says: Absence, again: bool) -> None:
    assert Tries(again=again, wait_ms=5_000).ended_by_airflow(state) == says


@pytest.mark.parametrize(("again", "says"), [(True, RESTARTING), (False, KILLED)])
def test_what_nobody_has_marked_or_cleared_is_a_failure_like_any_other(again: bool, says: Absence) -> None:
    tries = Tries(again=again, wait_ms=5_000)
    assert tries.ended_by_airflow("running") == tries.interrupted() == says


# ---- the worker in its task's process


class Recorder:
    """A worker that is asked to leave."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Absence]] = []
        self.stays_s: list[float] = []
        self.confirmed: list[Absence] = []

    def leave(self, reason: str, absence: Absence, confirm_within_s: float = 0.0) -> None:
        self.told.append((reason, absence))
        self.stays_s.append(confirm_within_s)

    def confirm(self, absence: Absence) -> None:
        self.confirmed.append(absence)

    def has_been_told(self) -> bool:
        return bool(self.told)


def a_run(*, url: str = URL, again: bool = True) -> tuple[WorkerRun, Recorder]:
    spec = replace(SPEC, member=replace(SPEC.member, url=url))
    tries = Tries(again=again, wait_ms=5_000)
    run = WorkerRun(spec, EQUIPMENT, SETTINGS, STORY, None, tries, NO_LINK)
    worker = Recorder()
    exit_requests: Any = worker
    run._exit_requests = exit_requests
    return run, worker


@pytest.mark.parametrize(
    ("state", "says", "reason"),
    [
        ("failed", KILLED, "its task was marked failed"),
        ("skipped", KILLED, "its task was skipped, by a user or by the dagrun_timeout of its DAG"),
        ("restarting", RESTARTING, "its task was cleared by a user"),
        ("up_for_retry", RESTARTING, "Airflow starts its task anew"),
        ("running", RESTARTING, "its process was told to end, and no user has ended its task"),
    ],
    ids=["marked", "skipped", "cleared", "retried", "evicted"],
)
async def test_when_airflow_ends_it_the_worker_asks_why(
    state: str, says: Absence, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskPage, "state", lambda _page: state)
    run, worker = a_run()
    run.leave()
    run._leave()
    run._leave()
    await eventually(lambda: worker.told)
    assert worker.told == [(reason, says)]
    assert run.why_ended == reason


async def test_without_an_answer_it_leaves_as_one_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(_page: TaskPage) -> str:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(TaskPage, "state", no_answer)
    for again, says in ((True, RESTARTING), (False, KILLED)):
        run, worker = a_run(again=again)
        run.leave()
        run._leave()
        await eventually(worker.has_been_told)
        assert worker.told == [(TOLD_TO_END, says)]


async def test_nor_does_it_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """But if it comes while the worker's tasks stop, it counts."""
    answered = threading.Event()
    monkeypatch.setattr(worker_run, "_ASK_WITHIN_S", 0.05)
    monkeypatch.setattr(TaskPage, "state", lambda _page: "failed" if answered.wait(DEADLINE_S) else "no answer")
    run, worker = a_run()
    run.leave()
    run._leave()
    await eventually(lambda: worker.told)
    assert worker.told == [(TOLD_TO_END, RESTARTING)]
    assert worker.stays_s[0] > 0, "for the confirmation"
    answered.set()
    await eventually(lambda: worker.confirmed)
    assert worker.confirmed == [KILLED]
    assert run.why_ended == "its task was marked failed"


def test_the_operator_gives_its_worker_what_it_knows(runs: type[FakeRun]) -> None:
    runs.endings += [outcome(Ending.DRAINED), outcome(Ending.DRAINED)]
    operator = worker_operator(retries=3, retry_delay=timedelta(seconds=1))
    operator.execute(context(try_number=2, max_tries=3))
    operator.execute(context(try_number=4, max_tries=3))
    assert [run.tries.returns_ms for run in runs.made] == [1_000 + MARGIN_MS, 0]


def test_of_a_membership_in_a_triggerer_nothing_is_known() -> None:
    """Airflow gives its trigger to another triggerer, whatever becomes of this one."""
    assert SPEC.settings(WorkerPhase.DEFERRED).returns_ms is None
    assert SPEC.settings(WorkerPhase.STABLE, 0).returns_ms == 0
