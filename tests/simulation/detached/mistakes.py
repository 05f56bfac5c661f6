"""Mistakes that a change to the code of detached tasks could make. Some history must notice each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from simulation.detached.servers import CallsOfServer, Server

from airflow_provider.spark.attempts import blame as spark_blame
from airflow_provider.spark.runner import TaskOrder
from airflow_provider.spark.runners.detached_queries import DetachedQueries
from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.state.views.status_view import StatusView
from airflow_provider.values.model import TaskId
from airflow_provider.values.replacing import replaced
from airflow_provider.worker.tasks import admission, attempts
from airflow_provider.worker.tasks.commands import LetBegin
from airflow_provider.worker.tasks.runs.runs import TaskRun
from airflow_provider.worker.tasks.state import Execution

Mistake = Callable[[pytest.MonkeyPatch], None]


def begins_before_its_handle_is_read_back(patch: pytest.MonkeyPatch) -> None:
    """It is enough that the handle is stored."""

    def begin(x: Execution, task: TaskId) -> None:
        run = x.runs[task]
        if run.waits_to_begin:
            x.keep(replaced(run, let_begin=True))
            x.do(LetBegin(task=task))

    patch.setattr(attempts, "let_begin_when_recorded", begin)


def forgets_queries_whose_records_were_overwritten(patch: pytest.MonkeyPatch) -> None:
    def look(self: StatusView, known: TaskStatus | None, new: TaskStatus) -> None: ...

    patch.setattr(StatusView, "_note_unended", look)


def takes_silence_for_an_end(patch: pytest.MonkeyPatch) -> None:
    async def ask_once(self: DetachedQueries, watched: Any, ask: Callable[[], Any]) -> Any:
        try:
            return await ask()
        except Exception:  # noqa: BLE001  that is the mistake
            return None

    patch.setattr(DetachedQueries, "_insist", ask_once)


def starts_beside_a_query_of_an_older_plan(patch: pytest.MonkeyPatch) -> None:
    take_over = admission._take_over

    def only_the_same(x: Execution, run: TaskRun, last: TaskStatus, *, attempt: int) -> None:
        if last.is_of(run.work.definition.run_key, run.work.fingerprint):
            take_over(x, run, last, attempt=attempt)
        else:
            x.keep(run)

    patch.setattr(admission, "_take_over", only_the_same)


def forgets_the_earlier_query_of_a_waiting_task(patch: pytest.MonkeyPatch) -> None:
    def lives_on(self: TaskStatus) -> bool:
        return self.handle is not None and self.state is TaskState.RUNNING

    patch.setattr(TaskStatus, "lives_on", property(lives_on))


def uses_a_server_that_takes_calls_in_ended_sessions(patch: pytest.MonkeyPatch) -> None:
    """The guarantees depend on the server here."""
    start = Server.start

    async def start_anywhere(self: Server, session_id: str, *given: Any) -> Any:
        self.open.add(session_id)
        self.ending.discard(session_id)
        return await start(self, session_id, *given)

    patch.setattr(Server, "start", start_anywhere)


def closes_a_session_in_which_a_query_starts(patch: pytest.MonkeyPatch) -> None:
    """The query would run in a session that nobody can reach, and keep its checkpoint."""

    async def no(self: CallsOfServer, *_: Any) -> bool:
        return False

    patch.setattr(CallsOfServer, "is_starting", no)
    patch.setattr(CallsOfServer, "is_executing", no)


def interrupts_a_start(patch: pytest.MonkeyPatch) -> None:
    """Nobody finds the query that comes of it."""

    async def is_starting(self: CallsOfServer, *_: Any) -> bool:
        return False

    patch.setattr(CallsOfServer, "is_starting", is_starting)


def lets_queries_start_in_a_session_that_it_ends(patch: pytest.MonkeyPatch) -> None:
    """A start may come between two of the calls that end the session."""

    async def refuse_starts(self: CallsOfServer, *_: Any) -> None: ...

    patch.setattr(CallsOfServer, "refuse_starts", refuse_starts)


def looks_for_no_query_whose_start_was_cut_off(patch: pytest.MonkeyPatch) -> None:
    """What is watched without the query's ids is neither found nor ended."""
    watch = DetachedQueries.watch

    def watch_what_is_known(self: DetachedQueries, order: TaskOrder, handle: Any) -> None:
        if handle["run_id"] is not None:
            watch(self, order, handle)

    patch.setattr(DetachedQueries, "watch", watch_what_is_known)


def takes_a_race_for_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spark_blame, "_is_conflict", lambda _thrown: False)


WHEN_A_SERVER_ENDS: Final[tuple[Mistake, ...]] = (looks_for_no_query_whose_start_was_cut_off,)
"""Noticed when a server ends under a start."""
WHEN_TWO_BEGIN: Final[tuple[Mistake, ...]] = (
    begins_before_its_handle_is_read_back,
    forgets_queries_whose_records_were_overwritten,
)
"""Noticed when two workers begin the same task, and one reads late."""
WHEN_A_SERVER_IS_AWAY: Final[tuple[Mistake, ...]] = (
    takes_silence_for_an_end,
    forgets_the_earlier_query_of_a_waiting_task,
)
"""Noticed when a query runs on a server that is away."""
MISTAKES: Final[tuple[Mistake, ...]] = (
    takes_a_race_for_a_failure,
    starts_beside_a_query_of_an_older_plan,
    uses_a_server_that_takes_calls_in_ended_sessions,
    closes_a_session_in_which_a_query_starts,
    interrupts_a_start,
    lets_queries_start_in_a_session_that_it_ends,
)
