"""Tasks that are made ready to run: their code, their thread and their session, with a stand-in for Spark."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from begun import begins_at_once
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.job import SparkJob, TaskContext, TaskGuard, spark_job
from airflow_provider.spark.local.application.spark_application import LocalSparkSettings
from airflow_provider.spark.local.errors import SparkGoneError, SparkStartError
from airflow_provider.spark.local.spark_state import Sight
from airflow_provider.spark.runner import (
    NoSparkToWarmUp,
    RunnerClosedError,
    RunnerEvent,
    TaskFinished,
    TaskOrder,
    TaskStarted,
    TaskStopped,
    WarmUpFailed,
    WarmUpLost,
    WarmUpProgressed,
    WarmUpReady,
)
from airflow_provider.spark.runners import local
from airflow_provider.spark.runners.attached_tasks import attached, warming
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.spark.runners.noop import NoopRunner
from airflow_provider.values.model import Epoch, TaskId

TASK = TaskId("job", 0)


class Gates:
    """Where the jobs of these tests wait, and what they have done."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.cancelled, self.closed = threading.Event(), threading.Event()


gates = Gates()


class Spark:
    number, alive = 3, True

    def gone(self) -> SparkGoneError:
        return SparkGoneError("this worker's Spark has ended: killed", spark=3)


class Session:
    """A session of a Spark that the test tells about."""

    made: ClassVar[list[Session]] = []
    cannot: Exception | None = None
    handle: Any = None
    left_open = False

    def __init__(
        self,
        user: object,
        settings: LocalSparkSettings,
        pools: object,
        module: str,
        *,
        label: str,
        conf: Mapping[str, str],
        allowed_conf: object,
        lease_left_s: object,
        tell_every_s: float,
    ) -> None:
        self.spark: Any = None
        self.views: dict[str, Any] = {}
        self.prepared: list[str] = []
        self.made.append(self)

    def open(self) -> Any:
        if self.cannot is not None:
            raise self.cannot
        self.spark = Spark()
        return self

    def query_id(self, value: object) -> None: ...

    def left_running(self, value: object) -> None: ...

    def explain(self, error: BaseException) -> BaseException:
        return error if self.spark is None or self.spark.alive else self.spark.gone()

    def share(self, name: str, make: Callable[[], Any], guard: TaskGuard) -> Any:
        return make()

    def prepare_stream(self, location: str, guard: TaskGuard) -> Iterator[float]:
        self.prepared.append(location)
        yield 0.25

    def rehearse(self, stream: object, location: str, guard: TaskGuard) -> Iterator[float]:
        return iter(())

    def cancel(self) -> None:
        gates.cancelled.set()

    def let_go_on(self, query: object) -> bool:
        return False

    def give_up(self) -> None: ...

    def close(self) -> None:
        gates.closed.set()
        if self.spark is not None and not self.spark.alive:
            raise OSError("the JVM has gone")


class Steps(SparkJob):
    """Warms up in two steps; at the second it waits for the test."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def warm_up(self, spark: Any, task: TaskContext) -> Iterator[float] | None:
        return self._steps(spark)

    def _steps(self, spark: Any) -> Iterator[float]:
        self.known.append("first")
        spark.views["first"] = 1
        yield 0.5
        gates.reached.set()
        gates.go_on.wait(DEADLINE_S)
        self.known.append("second")
        yield 0.9
        self.known.append("third")

    def run(self, spark: Any, task: TaskContext) -> Any:
        return {"known": self.known, "views": sorted(spark.views), "attempt": task.attempt, "stopping": task.stopping}


class AtOnce(Steps):
    def warm_up(self, spark: Any, task: TaskContext) -> None:
        self.known.append("all")


class Computes(Steps):
    """One long step in Spark, which ends with an error when it is cancelled."""

    def warm_up(self, spark: Any, task: TaskContext) -> None:
        self.known.append("half")
        spark.views["half"] = 1
        gates.reached.set()
        assert gates.cancelled.wait(DEADLINE_S)
        raise RuntimeError("the job was cancelled")


class Lasts(Computes):
    def run(self, spark: Any, task: TaskContext) -> Any:
        gates.cancelled.clear()
        return "cancelled" if gates.cancelled.wait(0.1) else "not cancelled"


class Deaf(Steps):
    """Computes in Python, and hears nothing."""

    def warm_up(self, spark: Any, task: TaskContext) -> None:
        gates.reached.set()
        gates.go_on.wait(DEADLINE_S)


class Writes(Steps):
    def warm_up(self, spark: Any, task: TaskContext) -> None:
        task.fence()


class Fails(Steps):
    def warm_up(self, spark: Any, task: TaskContext) -> None:
        raise ValueError("no airports")


class SaysNothing(Steps):
    def warm_up(self, spark: Any, task: TaskContext) -> Iterator[Any]:
        yield


class Plain(SparkJob):
    def run(self, spark: Any, task: TaskContext) -> Any:
        return "ran"


class Cold(Plain):
    warm_up = None


def warm_function(spark: Any, task: TaskContext) -> None:
    spark.views["warm"] = 1


@spark_job(warm_up=warm_function)
def function(spark: Any, task: TaskContext) -> Any:
    return sorted(spark.views)


class Table:
    """As a DataFrame, it has items, and no end of them."""

    def __getitem__(self, index: int) -> str:
        return f"column {index}"


TABLE: Any = Table


@spark_job(warm_up=lambda spark, task: task.cached("airports", TABLE))
def one_line(spark: Any, task: TaskContext) -> Any:
    return "ran"


def order(name: str, attempt: int = 1, **changes: Any) -> TaskOrder:
    made = TaskOrder(task=TASK, entry_point=f"{__name__}:{name}", epoch=Epoch(1), attempt=attempt, bounded=True)
    return replace(made, **changes)


class Watched:
    """A runner, and what it tells."""

    def __init__(self) -> None:
        self.events: list[RunnerEvent] = []
        self.runner = begins_at_once(LocalRunner(self.events.append, allowed=[__name__]))

    async def hears(self, kind: type[RunnerEvent]) -> Any:
        await eventually(lambda: any(isinstance(event, kind) for event in self.events), f"{kind.__name__} is heard")
        return next(event for event in self.events if isinstance(event, kind))

    async def reached(self) -> None:
        await eventually(gates.reached.is_set, "its step has begun")

    async def result(self) -> Any:
        return (await self.hears(TaskFinished)).result


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watched]:
    global gates
    gates = Gates()
    monkeypatch.setattr(local, "LocalSession", Session)
    monkeypatch.setattr(Session, "made", [])
    monkeypatch.setattr(Spark, "alive", True)
    monkeypatch.setattr(warming, "TELL_EVERY_S", 0.0)
    watched = Watched()
    yield watched
    gates.go_on.set()
    assert await watched.runner.close() == frozenset()
    assert not watched.runner._learning


# ---- to the end


async def test_its_attempt_goes_on_with_the_job_and_the_session_that_were_made_ready(watched: Watched) -> None:
    watched.runner.warm(order("Steps"))
    gates.go_on.set()
    assert await watched.hears(WarmUpReady) == WarmUpReady(order=order("Steps"))
    told = [event.progress for event in watched.events if isinstance(event, WarmUpProgressed)]
    assert told == [0.5, 0.9]
    assert watched.runner.running == frozenset()
    await watched.runner.start(order("Steps", attempt=4))
    result = await watched.result()
    assert result == {"known": ["first", "second", "third"], "views": ["first"], "attempt": 4, "stopping": False}
    assert len(Session.made) == 1
    await eventually(gates.closed.is_set, "its session is closed")
    assert watched.runner.running == frozenset()


@pytest.mark.parametrize(
    ("name", "result"), [("function", ["warm"]), ("one_line", "ran"), ("Plain", "ran"), ("Cold", "ran")]
)
async def test_every_kind_of_job_can_be_made_ready(watched: Watched, name: str, result: Any) -> None:
    watched.runner.warm(order(name))
    await watched.hears(WarmUpReady)
    await watched.runner.start(order(name))
    assert await watched.result() == result


@pytest.mark.parametrize(("name", "prepares"), [("AtOnce", True), ("Plain", True), ("Cold", False)])
async def test_spark_is_prepared_for_a_stream_unless_it_wants_no_warm_up(
    watched: Watched, name: str, prepares: bool
) -> None:
    watched.runner.warm(order(name, bounded=False, checkpoint_location="/checkpoints/0"))
    await watched.hears(WarmUpReady)
    assert Session.made[0].prepared == ["/checkpoints/0"] * prepares
    told = [event.progress for event in watched.events if isinstance(event, WarmUpProgressed)]
    assert told == {"AtOnce": [0.0], "Plain": [0.25], "Cold": []}[name], "the job's own says how far it is"


async def test_progress_is_told_once_a_second(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "TELL_EVERY_S", 60.0)
    watched.runner.warm(order("Steps"))
    gates.go_on.set()
    await watched.hears(WarmUpReady)
    assert [event.progress for event in watched.events if isinstance(event, WarmUpProgressed)] == [0.5]


# ---- it moves before it is ready


async def test_a_generator_is_stopped_where_it_yields_and_its_job_kept(watched: Watched) -> None:
    watched.runner.warm(order("Steps"))
    await watched.reached()
    await watched.runner.start(order("Steps"))
    await eventually(gates.cancelled.is_set, "its Spark jobs are cancelled")
    gates.go_on.set()
    result = await watched.result()
    assert result == {"known": ["first", "second"], "views": ["first"], "attempt": 1, "stopping": False}
    assert not any(isinstance(event, WarmUpReady) for event in watched.events)


async def test_one_broken_off_in_a_step_begins_with_a_new_job_in_its_session(watched: Watched) -> None:
    watched.runner.warm(order("Computes"))
    await watched.reached()
    await watched.runner.start(order("Computes"))
    assert await watched.result() == {"known": [], "views": ["half"], "attempt": 1, "stopping": False}
    assert not any(isinstance(event, WarmUpFailed) for event in watched.events)


async def test_the_attempts_own_spark_jobs_are_not_cancelled(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "CANCEL_INTERVAL_S", 0.005)
    watched.runner.warm(order("Lasts"))
    await watched.reached()
    await watched.runner.start(order("Lasts"))
    assert await watched.result() == "not cancelled"


async def test_nobody_waits_long_for_one_that_does_not_hear(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(attached, "_STEP_S", 0.05)
    watched.runner.warm(order("Deaf"))
    await watched.reached()
    await watched.runner.start(order("Deaf"))
    assert (await watched.result())["views"] == []
    assert "The warm-up of job:0 does not stop; the task starts without it" in caplog.text
    assert len(Session.made) == 2


async def test_a_task_that_is_stopped_before_its_warm_up_has_stopped_never_begins(watched: Watched) -> None:
    watched.runner.warm(order("Deaf"))
    await watched.reached()
    await watched.runner.start(order("Deaf"))
    assert await watched.runner.stop([TASK], "revoked", timeout_s=DEADLINE_S) == frozenset()
    assert watched.events == [TaskStopped(order=order("Deaf"), reason="revoked")]
    gates.go_on.set()
    await eventually(gates.closed.is_set)
    assert not any(isinstance(event, TaskStarted) for event in watched.events)


@pytest.mark.parametrize("other", [{"config": {"month": 2}}, {"run_key": "another run"}], ids=["config", "run"])
async def test_what_was_made_ready_for_other_work_is_let_go_of(watched: Watched, other: dict[str, Any]) -> None:
    watched.runner.warm(order("AtOnce"))
    await watched.hears(WarmUpReady)
    await watched.runner.start(order("AtOnce", **other))
    assert (await watched.result())["known"] == []


# ---- it ends otherwise


@pytest.mark.parametrize("name", ["Steps", "Computes"])
async def test_what_is_let_go_of_is_stopped_and_not_heard_of_any_more(watched: Watched, name: str) -> None:
    watched.runner.warm(order(name))
    await watched.reached()
    watched.runner.stop_warming(TASK)
    watched.runner.stop_warming(TASK)
    await eventually(gates.cancelled.is_set)
    gates.go_on.set()
    await eventually(gates.closed.is_set, "its session is closed")
    assert not any(not isinstance(event, WarmUpProgressed) for event in watched.events)


async def test_what_is_let_go_of_while_spark_starts_is_not_begun(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may take a minute, and a plain function that has begun hears nothing."""
    opened = Session.open

    def open_slowly(session: Session) -> Any:
        gates.reached.set()
        gates.go_on.wait(DEADLINE_S)
        return opened(session)

    monkeypatch.setattr(Session, "open", open_slowly)
    watched.runner.warm(order("function"))
    await watched.reached()
    watched.runner.stop_warming(TASK)
    gates.go_on.set()
    await eventually(gates.closed.is_set, "its session is closed")
    assert [session.views for session in Session.made] == [{}]


async def test_what_is_ready_and_let_go_of_gives_back_its_session(watched: Watched) -> None:
    watched.runner.warm(order("AtOnce"))
    await watched.hears(WarmUpReady)
    assert not gates.closed.is_set()
    watched.runner.stop_warming(TASK)
    await eventually(gates.closed.is_set)


async def test_a_warm_up_that_fails_says_why_and_may_be_tried_again(watched: Watched) -> None:
    watched.runner.warm(order("Fails"))
    failed = await watched.hears(WarmUpFailed)
    assert failed.error == "ValueError: no airports"
    assert "raise ValueError" in failed.traceback
    watched.runner.warm(order("AtOnce"))
    await watched.hears(WarmUpReady)


async def test_a_warm_up_may_not_write(watched: Watched) -> None:
    watched.runner.warm(order("Writes"))
    failed = await watched.hears(WarmUpFailed)
    assert "warm_up() may not write: the task runs on another worker meanwhile" in failed.error


async def test_a_warm_up_that_yields_no_number_is_told_what_to_yield(watched: Watched) -> None:
    watched.runner.warm(order("SaysNothing"))
    failed = await watched.hears(WarmUpFailed)
    assert failed.error == "TypeError: warm_up() must yield how far it is, a number from 0 to 1, not None"


async def test_a_job_that_cannot_be_loaded_cannot_be_made_ready(watched: Watched) -> None:
    watched.runner.warm(order("Nowhere"))
    assert "has no attribute Nowhere" in (await watched.hears(WarmUpFailed)).error


async def test_without_spark_nothing_can_be_made_ready(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "cannot", SparkStartError("there is no Java"))
    watched.runner.warm(order("AtOnce"))
    assert "there is no Java" in (await watched.hears(NoSparkToWarmUp)).error


async def test_a_spark_that_ends_under_a_warm_up_is_no_failure_of_it(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.runner.warm(order("Computes"))
    await watched.reached()
    monkeypatch.setattr(Spark, "alive", False)
    gates.cancelled.set()  # its call comes back with an error
    assert await watched.hears(WarmUpLost) == WarmUpLost(order=order("Computes"), spark=3)


async def test_what_is_ready_is_lost_with_its_spark(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "LOOK_S", 0.01)
    monkeypatch.setattr(local, "look_at", lambda _spark: Sight.ENDED)
    watched.runner.warm(order("AtOnce"))
    assert await watched.hears(WarmUpLost) == WarmUpLost(order=order("AtOnce"), spark=3)
    await eventually(gates.closed.is_set)


async def test_what_was_ready_in_a_spark_that_has_ended_begins_anew_in_another(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.runner.warm(order("AtOnce"))
    await watched.hears(WarmUpReady)
    Session.made[0].spark = type("Dead", (Spark,), {"alive": False})()
    await watched.runner.start(order("AtOnce"))
    assert (await watched.result())["known"] == []
    assert len(Session.made) == 2


async def test_a_closed_runner_makes_nothing_ready(watched: Watched) -> None:
    watched.runner.warm(order("Steps"))
    await watched.reached()
    closing = asyncio.ensure_future(watched.runner.close(timeout_s=DEADLINE_S))
    await eventually(gates.cancelled.is_set, "it is to stop")
    gates.go_on.set()
    assert await closing == frozenset()
    assert gates.closed.is_set()
    with pytest.raises(RunnerClosedError):
        watched.runner.warm(order("Steps"))


async def test_the_noop_runner_takes_as_long_as_the_configuration_says() -> None:
    runner = begins_at_once(NoopRunner((events := list[RunnerEvent]()).append))
    task = order("any", config={"warm_up_seconds": 0.02})
    runner.warm(task)
    await eventually(lambda: WarmUpReady(order=task) in events)
    assert events == [WarmUpProgressed(order=task, progress=0.5), WarmUpReady(order=task)]
    await runner.start(task)
    runner.warm(replace(task, config={"warm_up_seconds": "long"}))
    await eventually(lambda: len(events) == 5)
    await runner.close()
    with pytest.raises(RunnerClosedError):
        runner.warm(task)
