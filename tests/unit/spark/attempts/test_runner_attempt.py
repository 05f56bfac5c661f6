"""One attempt from its order to its last event, with a stand-in for Spark."""

from __future__ import annotations

import errno
import threading
from dataclasses import replace
from typing import Any

import pytest
from attempt_jobs import CALLED, JOBS, ORDERS, fail, order
from fake_session import FakeSession

from airflow_provider.spark.attempts.failures import describe, nothing_secret
from airflow_provider.spark.attempts.run_attempt import run_attempt
from airflow_provider.spark.job import FencedError
from airflow_provider.spark.job.asset_writes import AssetWrite
from airflow_provider.spark.job.fencing import AttemptGuard, EndlessLease
from airflow_provider.spark.lineage import Lineage
from airflow_provider.spark.local.errors import SparkFullError, SparkGoneError, SparkStartError
from airflow_provider.spark.local.streaming.query_progress import QueryProgress
from airflow_provider.spark.runner import (
    LineageNamed,
    QueryStarted,
    RunnerEvent,
    SparkAbsent,
    SparkFaltered,
    SparkLost,
    TaskConflicted,
    TaskFailed,
    TaskFinished,
    TaskOrder,
    TaskProgressed,
    TaskStarted,
    TaskStopped,
    WarmUpConflicted,
)
from airflow_provider.spark.warm_up import WarmUpGuard, warm_up
from airflow_provider.values.model import PLANNER_INDEX, Epoch, TaskId


class Attempt:
    """Runs an order and keeps what came of it."""

    def __init__(self, order: TaskOrder, guard: AttemptGuard | None = None, session: FakeSession | None = None) -> None:
        self.order = order
        self.session = session or FakeSession()
        self.events: list[RunnerEvent] = []
        guard = guard or AttemptGuard(EndlessLease())
        guard.proceed()
        self.last = run_attempt(order, guard, self.session, [JOBS], self.events.append)
        assert self.session.closed == 1


def test_a_task_starts_and_finishes() -> None:
    attempt = Attempt(order("add", numbers=[1, 2]))
    assert attempt.events == [TaskStarted(order=attempt.order)]
    result = {"session": "the session", "sum": 3, "attempt": 2, "run": "monday"}
    assert attempt.last == TaskFinished(order=attempt.order, result=result)


def test_with_its_end_it_is_told_what_the_task_has_written() -> None:
    last = Attempt(order("write", divide_by=1)).last
    assert isinstance(last, TaskFinished)
    assert last.wrote == (AssetWrite("orders", "s3://lake/orders", 7),)
    assert isinstance(Attempt(order("write", divide_by=0)).last, TaskFailed), "which says nothing of it"


def test_what_a_task_reads_and_writes_is_told_as_it_starts() -> None:
    attempt = Attempt(order("write_table", table="orders"))
    named = LineageNamed(order=attempt.order, lineage=Lineage(outputs=[ORDERS]))
    assert attempt.events == [TaskStarted(order=attempt.order), named]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("name_nothing", "KeyError: 'no such table'"),
        ("name_nothing_and_exit", "SystemExit: 0"),
        ("name_a_list", "it returned a list, not a Lineage"),
    ],
)
def test_a_task_runs_though_its_job_can_not_say_what_it_reads_and_writes(
    job: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = Attempt(order(job))
    assert attempt.events == [TaskStarted(order=attempt.order)]
    assert attempt.last == TaskFinished(order=attempt.order, result="written")
    assert f"No lineage of task job:0, because of its job's lineage(): {said}" in caplog.text


def test_while_a_task_runs_it_rehearses_nothing() -> None:
    """A job whose run() warms up by itself first would stand still for that, and its fence would let it write."""
    last = Attempt(order("warm_up_first")).last
    assert isinstance(last, TaskFinished)
    assert last.result == {"rehearsed": []}


def test_a_planner_finishes_with_its_plan_and_needs_no_spark() -> None:
    attempt = Attempt(order("add", PLANNER_INDEX, tasks=2))
    assert attempt.last == TaskFinished(order=attempt.order, result=[{"n": 0}, {"n": 1}], config_schema={})
    assert attempt.session.opened == 0


def test_a_plan_that_is_too_long_is_not_tried_again() -> None:
    attempt = Attempt(order("add", PLANNER_INDEX, tasks=100_000))
    assert isinstance(attempt.last, TaskFailed)
    assert not attempt.last.retryable
    assert "more than the 900000 that a record has room for" in attempt.last.error


def test_a_result_too_big_for_a_record_fails_the_task() -> None:
    last = Attempt(order("talk")).last
    assert isinstance(last, TaskFailed)
    assert not last.retryable
    assert "the result of task job:0 cannot be written into its status record: $ has 100002 bytes" in last.error
    assert last.error.count("100002 bytes") == 1, "said once"


def test_a_number_that_no_record_can_have_fails_the_task_for_good() -> None:
    """Another try would come to the same number."""
    last = Attempt(order("count_beyond_all_bounds")).last
    assert isinstance(last, TaskFailed)
    assert "$.n is a whole number of 14285 bits" in last.error
    assert not last.retryable


def test_a_streaming_task_tells_its_query() -> None:
    attempt = Attempt(order("stream"))
    progress = QueryProgress(batch=9, rows_per_second=2.5)
    assert attempt.events == [
        TaskStarted(order=attempt.order),
        QueryStarted(order=attempt.order, query_id="query-1"),
        TaskProgressed(order=attempt.order, progress=progress),
    ]
    assert attempt.last == TaskFinished(order=attempt.order, result={"last_batch": 9})


def test_a_task_that_is_to_end_may_not_leave_a_query_running() -> None:
    attempt = Attempt(replace(order("stream"), bounded=True))
    assert attempt.events == [TaskStarted(order=attempt.order)]
    assert isinstance(attempt.last, TaskFailed)
    assert not attempt.last.retryable, "another try would start the same query"
    assert 'UnboundedError: it returned a query, in a job of kind "batch"' in attempt.last.error
    assert 'kind="streaming"' in attempt.last.error


def test_a_task_that_forgets_to_return_its_query_has_not_finished() -> None:
    session = FakeSession()
    session.forgotten = "run() has left streaming queries running: orders"
    last = Attempt(order("add", numbers=[1]), session=session).last
    assert isinstance(last, TaskFailed)
    assert not last.retryable, "another try would start the same query"
    words = "and has returned no query: let run() return the query that it starts"
    assert last.error == f"ForgottenQueryError: {session.forgotten}, {words}"
    assert not last.traceback


def test_an_error_is_told_with_its_cause_and_the_jobs_own_frames() -> None:
    attempt = Attempt(order("fail"))
    assert isinstance(attempt.last, TaskFailed)
    assert attempt.last.retryable
    assert attempt.last.error == "ValueError: bad row\ncaused by KeyError: 'customer'"
    assert "in fail" in attempt.last.traceback
    assert "run_attempt" not in attempt.last.traceback


def test_of_an_error_that_is_named_where_a_jobs_code_is_called_only_the_jobs_frames_are_told() -> None:
    last = Attempt(order("CannotBeMade")).last
    assert isinstance(last, TaskFailed)
    assert "CannotBeMade() failed with ValueError: no" in last.error
    assert "in __init__" in last.traceback
    assert "raised.py" not in last.traceback


def test_an_error_that_cannot_say_what_it_is_about_fails_the_task_like_any_other() -> None:
    """Else the task would have no last event, and keep its slot for ever."""
    last = Attempt(order("fail_without_words")).last
    assert isinstance(last, TaskFailed)
    assert last.error.startswith("SpeechlessError: its message can't be shown, because that failed with AttributeError")
    assert last.error.endswith("caused by KeyError: 'customer'")
    assert "in fail_without_words" in last.traceback


def test_an_error_that_exits_while_it_is_described_fails_the_task_like_any_other() -> None:
    last = Attempt(order("fail_and_exit_when_described")).last
    assert isinstance(last, TaskFailed)
    assert last.error == "ExitingError: its message can't be shown, because that failed with SystemExit"


@pytest.mark.parametrize("why", [ConnectionRefusedError, SystemExit])
def test_an_error_of_which_nothing_can_be_told_fails_the_task_all_the_same(why: type[BaseException]) -> None:
    class Speechless(FakeSession):
        def explain(self, error: BaseException) -> BaseException:
            raise why

    last = Attempt(order("fail"), session=Speechless()).last
    assert isinstance(last, TaskFailed)
    assert last.retryable
    assert last.error == f"ValueError; its message can't be shown, because that failed with {why.__name__}"


def test_a_task_whose_spark_has_ended_has_not_failed() -> None:
    class Gone(FakeSession):
        def explain(self, error: BaseException) -> BaseException:
            return SparkGoneError("this worker's Spark has ended", spark=4)

    last = Attempt(order("fail"), session=Gone()).last
    assert isinstance(last, SparkLost)
    assert (last.spark, last.error) == (4, "this worker's Spark has ended")


def test_a_task_that_its_spark_has_no_capacity_for_has_not_failed_and_may_have_to_wait_for_long() -> None:
    class Full(FakeSession):
        def open(self) -> None:
            raise SparkFullError("it is full", began=False)

    attempt = Attempt(order("fail"), session=Full())
    assert attempt.last == SparkFaltered(order=attempt.order, error="it is full", lasts=True)


class Raced(FakeSession):
    """Another writer has the checkpoint of its task."""

    def open(self) -> Any:
        race = "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."
        raised = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
        raise raised(f"An error occurred while calling o1.start.\n: {race}")


def test_a_task_whose_checkpoint_another_writer_uses_has_not_failed() -> None:
    last = Attempt(order("fail"), session=Raced()).last
    assert isinstance(last, TaskConflicted)
    assert last.error == "SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."


def test_neither_has_its_warm_up() -> None:
    raced, to_warm = Raced(), order("fail")
    done = warm_up(to_warm, WarmUpGuard(), raced, lambda: fail, lambda _far: None, nothing_secret)
    assert done.outcome == WarmUpConflicted(
        order=to_warm, error="SparkException: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log."
    )


def test_a_task_for_which_spark_does_not_start_has_not_failed() -> None:
    class Absent(FakeSession):
        def open(self) -> None:
            raise SparkStartError("there is no Java")

    attempt = Attempt(order("fail"), session=Absent())
    assert attempt.last == SparkAbsent(order=attempt.order, error="there is no Java")


def test_neither_has_one_whose_session_needs_more_files_than_its_worker_may_open() -> None:
    class UsedUp(FakeSession):
        def open(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    attempt = Attempt(order("fail"), session=UsedUp())
    assert isinstance(attempt.last, SparkAbsent)
    assert attempt.last.error.startswith("this process can't open a Spark session: a limit of it is reached")


def test_a_job_that_exits_has_failed() -> None:
    last = Attempt(order("leave")).last
    assert isinstance(last, TaskFailed)
    assert last.error == "SystemExit: 3"


def test_an_entry_point_that_is_not_allowed_is_not_tried_again() -> None:
    last = Attempt(TaskOrder(task=TaskId("job", 0), entry_point="os:system", epoch=Epoch(1))).last
    assert isinstance(last, TaskFailed)
    assert not last.retryable
    assert "module os is not allowed here" in last.error


def stopped_guard() -> AttemptGuard:
    guard = AttemptGuard(EndlessLease())
    guard.stop("revoked")
    guard.stop("too late to be the reason")
    return guard


def test_a_task_that_is_stopped_before_it_starts_never_starts() -> None:
    attempt = Attempt(order("add", numbers=[]), stopped_guard())
    assert attempt.events == []
    assert attempt.last == TaskStopped(order=attempt.order, reason="revoked")


def test_what_a_task_returns_after_it_was_told_to_stop_does_not_count() -> None:
    guard = AttemptGuard(EndlessLease())

    class StoppedMeanwhile(FakeSession):
        def query_id(self, value: object) -> None:
            guard.stop("revoked")

        def left_running(self, value: object) -> str | None:
            raise AssertionError("what it has left is about to be stopped: nobody asks for that")

    attempt = Attempt(order("add", numbers=[]), guard, StoppedMeanwhile())
    assert attempt.last == TaskStopped(order=attempt.order, reason="revoked")


def test_a_query_that_it_returns_after_it_was_told_to_stop_does_not_go_on_without_it() -> None:
    guard = AttemptGuard(EndlessLease())

    class StoppedMeanwhile(FakeSession):
        left_open = False

        def query_id(self, value: object) -> str:
            guard.stop("revoked")
            return "query-1"

        def let_go_on(self, query: object) -> bool:
            self.left_open = True
            return True

    attempt = Attempt(order("stream"), guard, StoppedMeanwhile())
    assert attempt.last == TaskStopped(order=attempt.order, reason="revoked")


def test_an_error_after_it_was_told_to_stop_is_no_failure() -> None:
    guard = AttemptGuard(EndlessLease())

    class StoppedMeanwhile(FakeSession):
        def open(self) -> None:
            guard.stop("revoked")
            raise OSError("cancelled")

    attempt = Attempt(order("add", numbers=[]), guard, StoppedMeanwhile())
    assert attempt.last == TaskStopped(order=attempt.order, reason="revoked")


def test_what_cannot_be_cleaned_up_is_a_failure() -> None:
    class Stuck(FakeSession):
        def close(self) -> None:
            super().close()
            raise OSError("a query does not stop")

    last = Attempt(order("add", numbers=[]), session=Stuck()).last
    assert isinstance(last, TaskFailed)
    assert last.error == "OSError: a query does not stop"


class CountedLease:
    grant = 1

    def check(self, grant: int) -> None:
        if grant != self.grant:
            raise FencedError("the lease is over")

    def left_s(self, grant: int) -> float:
        return float(grant == self.grant)


def test_a_lease_that_ended_fences_an_attempt_even_when_it_was_granted_again() -> None:
    lease = CountedLease()
    guard = AttemptGuard(lease)
    lease.grant = 2
    last = Attempt(order("fenced"), guard).last
    assert isinstance(last, TaskStopped), "no failure of the task: another worker may own it by now"
    assert last.reason == "the lease is over"
    assert isinstance(Attempt(order("fenced"), AttemptGuard(lease)).last, TaskFinished)


def test_java_stack_traces_are_left_out_of_errors() -> None:
    error = RuntimeError(
        "An error occurred.\n: java.io.IOException: disk full\n\tat org.apache.Foo(Foo.java)\n\tat Bar"
    )
    assert describe(error) == "RuntimeError: An error occurred.\n: java.io.IOException: disk full"


def test_very_long_errors_are_shortened() -> None:
    assert len(describe(RuntimeError("x" * 10_000))) < 2_100


# ---- its start is stored before its code is called


@pytest.mark.parametrize(("index", "called"), [(0, "run"), (PLANNER_INDEX, "plan")], ids=["task", "planner"])
def test_its_code_is_called_when_its_start_is_stored_and_not_before(index: int, called: str) -> None:
    CALLED.clear()
    guard = AttemptGuard(EndlessLease())

    def store() -> None:
        CALLED.append("stored")
        guard.proceed()

    def store_later(_started: RunnerEvent) -> None:
        threading.Timer(0.1, store).start()

    last = run_attempt(order("count_calls", index), guard, FakeSession(), [JOBS], store_later)
    assert isinstance(last, TaskFinished)
    assert ["stored", called] == CALLED


@pytest.mark.parametrize("index", [0, PLANNER_INDEX], ids=["task", "planner"])
def test_what_is_told_to_stop_before_its_start_is_stored_has_stopped_and_was_never_called(index: int) -> None:
    CALLED.clear()
    guard = AttemptGuard(EndlessLease())

    def revoke(_started: RunnerEvent) -> None:
        guard.stop_soon("revoked")

    last = run_attempt(order("count_calls", index), guard, FakeSession(), [JOBS], revoke)
    assert last == TaskStopped(order=order("count_calls", index), reason="revoked")
    assert not CALLED
