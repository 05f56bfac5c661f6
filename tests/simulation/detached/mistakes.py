"""Mistakes that somebody could make about what goes on without a process. Each is noticed by some history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from simulation.detached.servers import CallsOfServer, Server

from airflow_provider.execution import attempts
from airflow_provider.execution.commands import LetBegin
from airflow_provider.execution.state import Execution
from airflow_provider.ledger.status_view import StatusView
from airflow_provider.protocol.model import TaskId
from airflow_provider.protocol.replacing import replaced
from airflow_provider.records import TaskState, TaskStatus
from airflow_provider.runners.detached import DetachedQueries
from airflow_provider.runs.runs import TaskRun

Mistake = Callable[[pytest.MonkeyPatch], None]


def begins_before_it_is_read_where(patch: pytest.MonkeyPatch) -> None:
    """That it is stored would do."""

    def begin(x: Execution, task: TaskId) -> None:
        run = x.runs[task]
        if run.waits_to_begin:
            x.keep(replaced(run, let_begin=True))
            x.do(LetBegin(task=task))

    patch.setattr(attempts, "let_begin_when_recorded", begin)


def overlooks_what_was_written_over(patch: pytest.MonkeyPatch) -> None:
    def look(self: StatusView, known: TaskStatus | None, new: TaskStatus) -> None: ...

    patch.setattr(StatusView, "_look_what_lives_on", look)


def takes_silence_for_an_end(patch: pytest.MonkeyPatch) -> None:
    async def ask_once(self: DetachedQueries, watched: Any, ask: Callable[[], Any]) -> Any:
        try:
            return await ask()
        except Exception:  # noqa: BLE001  that is the mistake
            return None

    patch.setattr(DetachedQueries, "_insist", ask_once)


def begins_beside_what_runs_by_an_older_plan(patch: pytest.MonkeyPatch) -> None:
    take_over = Execution._take_over

    def only_the_same(self: Execution, run: TaskRun, last: TaskStatus, *, attempt: int) -> None:
        if last.is_of(run.work.definition.run_key, run.work.fingerprint):
            take_over(self, run, last, attempt=attempt)
        else:
            self.keep(run)

    patch.setattr(Execution, "_take_over", only_the_same)


def forgets_what_ran_before_what_waits(patch: pytest.MonkeyPatch) -> None:
    def lives_on(self: TaskStatus) -> bool:
        return self.handle is not None and self.state is TaskState.RUNNING

    patch.setattr(TaskStatus, "lives_on", property(lives_on))


def has_a_server_that_takes_calls_in_ended_sessions(patch: pytest.MonkeyPatch) -> None:
    """What the server has to see to."""
    start = Server.start

    async def start_anywhere(self: Server, session_id: str, *given: Any) -> Any:
        self.open.add(session_id)
        self.ending.discard(session_id)
        return await start(self, session_id, *given)

    patch.setattr(Server, "start", start_anywhere)


def closes_a_session_in_which_a_query_starts(patch: pytest.MonkeyPatch) -> None:
    """What starts there is nobody's, and keeps its checkpoint."""

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
    """Between two of its calls, for a moment."""

    async def refuse_starts(self: CallsOfServer, *_: Any) -> None: ...

    patch.setattr(CallsOfServer, "refuse_starts", refuse_starts)


OF_WHO_READS_LATE: Final[tuple[Mistake, ...]] = (begins_before_it_is_read_where, overlooks_what_was_written_over)
"""Noticed where one worker begins before it has read of another."""
OF_WHO_IS_NOT_ANSWERED: Final[tuple[Mistake, ...]] = (takes_silence_for_an_end, forgets_what_ran_before_what_waits)
"""Noticed where a query runs on a server that is away."""
MISTAKES: Final[tuple[Mistake, ...]] = (
    begins_beside_what_runs_by_an_older_plan,
    has_a_server_that_takes_calls_in_ended_sessions,
    closes_a_session_in_which_a_query_starts,
    interrupts_a_start,
    lets_queries_start_in_a_session_that_it_ends,
)
