"""A runner looks at the Spark that its tasks run on, and they need not notice by themselves what has become of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from begun import begins_at_once
from py4j.protocol import Py4JNetworkError
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.job import SparkJob, TaskContext
from airflow_provider.spark.job.session_conf import AllowedConf
from airflow_provider.spark.local.application import standalone, watch
from airflow_provider.spark.local.application.spark_application import (
    LocalSparkSettings,
    RunningSpark,
    SparkApplication,
)
from airflow_provider.spark.local.application.standalone import MasterSays
from airflow_provider.spark.local.application.watch import look_at
from airflow_provider.spark.local.driver_jvm import pulse
from airflow_provider.spark.local.errors import SparkAwayError, SparkGoneError
from airflow_provider.spark.local.shipping import Shipment
from airflow_provider.spark.local.spark_state import Sight
from airflow_provider.spark.runner import (
    RunnerEvent,
    ServersSilent,
    SparkEnded,
    SparkLost,
    TaskOrder,
    TaskStarted,
    TaskStopped,
)
from airflow_provider.spark.runners import local
from airflow_provider.spark.runners.attached_tasks import attached
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import Epoch, TaskId

TASK = TaskId("deaf", 0)


class Spark:
    """The third one of its process."""

    ui = "http://driver:4040"

    def gone(self) -> SparkGoneError:
        return SparkGoneError("this worker's Spark has ended: killed tok3n", spark=3)


class Deaf(SparkJob):
    """Asks Spark nothing; it looks at ``task.stopping`` and at its fence."""

    may_end = threading.Event()

    def run(self, spark: Any, task: TaskContext) -> None:
        while not task.wait(60):
            pass
        if task.config.get("slow"):
            self.may_end.wait(DEADLINE_S)
        if task.config.get("fenced"):
            task.fence()


class Session:
    """A session of a Spark that the test tells about."""

    spark = Spark()

    def __init__(
        self,
        user: object,
        settings: LocalSparkSettings,
        pools: object,
        module: str,
        *,
        label: str,
        conf: Mapping[str, str],
        allowed_conf: AllowedConf,
        tell_every_s: float,
        lease_left_s: object,
    ) -> None: ...

    def open(self) -> Any:
        return SimpleNamespace()

    def query_id(self, value: object) -> None:
        return None

    def explain(self, error: BaseException) -> BaseException:
        return error

    def share(self, name: str, make: Any, guard: object) -> Any:
        return make()

    def rehearse(self, stream: object, location: str, guard: object) -> Iterator[float]:
        return iter(())

    def cancel(self) -> None: ...

    handle: Any = None
    left_open = False

    def give_up(self) -> None: ...

    def let_go_on(self, query: object) -> bool:
        return False

    def close(self) -> None: ...


def masked(text: str) -> str:
    return text.replace("tok3n", "***")


class Watched:
    """A runner that runs a task, its events, and what it sees of its Spark."""

    def __init__(self) -> None:
        self.events: list[RunnerEvent] = []
        self.sight = Sight.FINE
        self.looks = 0
        self.conditions: list[str] = []
        self.pages: list[str] = []
        self.runner = begins_at_once(
            LocalRunner(
                self.events.append,
                allowed=[__name__],
                on_condition=self._changed,
                mask=masked,
            )
        )

    def _changed(self) -> None:
        for said, known in ((self.runner.condition, self.conditions), (self.runner.spark_ui, self.pages)):
            if said != (known or [""])[-1]:
                known.append(said)

    def look(self, _spark: object) -> Sight:
        self.looks += 1
        return self.sight

    async def looked(self, times: int = 3) -> None:
        seen = self.looks
        await eventually(lambda: self.looks >= seen + times)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    @asynccontextmanager
    async def run(**config: Any) -> AsyncIterator[Watched]:
        bench = Watched()
        monkeypatch.setattr(local, "LocalSession", Session)
        monkeypatch.setattr(local, "look_at", bench.look)
        monkeypatch.setattr(attached, "LOOK_S", 0.01)
        monkeypatch.setattr(local, "APPLICATION", SimpleNamespace(release=lambda _user: None))
        order = TaskOrder(task=TASK, entry_point=f"{__name__}:Deaf", config=config, epoch=Epoch(1))
        await bench.runner.start(order)
        await eventually(lambda: bench.events == [TaskStarted(order=order)])
        try:
            yield bench
        finally:
            await bench.runner.close()

    return run


@pytest.mark.parametrize("fenced", [False, True], ids=["returns when it is to stop", "ends by its fence"])
async def test_a_task_that_does_not_notice_that_its_spark_has_ended_is_told(
    watched: Any, fenced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with watched(fenced=fenced) as bench:
        bench.sight = Sight.ENDED
        await eventually(lambda: len(bench.events) == 3)
        last = bench.events[-1]
        assert isinstance(last, SparkLost)
        assert (last.spark, last.error) == (3, "this worker's Spark has ended: killed ***")
        assert "this worker's Spark has ended: killed ***; its tasks end: deaf:0" in caplog.text
    assert all(record.levelno < logging.WARNING for record in caplog.records), "its worker warns once of all that ended"


async def test_what_comes_when_the_loop_is_closed_is_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    Watched().runner._tell(loop, print, "tok3n")
    assert caplog.messages == ["The event loop is closed; this event is dropped: ***"]


async def test_the_end_of_spark_is_told_once_however_long_its_tasks_take_to_end(
    watched: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with watched(slow=True) as bench:
        bench.sight = Sight.ENDED
        await bench.looked()
        assert bench.events[1:] == [SparkEnded(spark=3, tasks=frozenset({TASK}))], "it hangs"
        Deaf.may_end.set()
        await eventually(lambda: len(bench.events) == 3)
    assert caplog.text.count("its tasks end") == 1


async def test_a_task_that_was_told_to_stop_before_has_stopped(watched: Any) -> None:
    async with watched() as bench:
        await bench.runner.stop([TASK], "revoked")
        bench.sight = Sight.ENDED
        assert isinstance(bench.events[-1], TaskStopped)


async def test_what_is_left_of_the_lease_is_told_while_a_task_runs(watched: Any) -> None:
    """When all have stopped in time, a lease that is over ends no JVM."""
    async with watched() as bench:
        assert bench.runner.lease_left_s() == math.inf
        await bench.runner.stop([TASK], "lease over")
        assert bench.runner.lease_left_s() is None


async def test_that_there_are_no_executors_is_said_as_long_as_it_lasts(
    watched: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched() as bench:
        await bench.looked()
        assert bench.conditions == []
        bench.sight = Sight.WAITING
        await bench.looked()
        assert bench.conditions == ["waiting for executors"]
        assert "Spark is waiting for executors: its tasks make no progress" in caplog.text
        bench.sight = Sight.FINE
        await eventually(lambda: bench.conditions == ["waiting for executors", ""])


@pytest.mark.parametrize("then", [Sight.FINE, Sight.ENDED])
async def test_that_its_server_is_silent_is_told_until_it_answers_or_has_ended(watched: Any, then: Sight) -> None:
    """Trials wait meanwhile."""
    async with watched() as bench:
        bench.sight = Sight.SILENT
        await bench.looked()
        assert bench.events[1:] == [ServersSilent(silent=True, detached=False)]
        bench.sight = then
        await eventually(lambda: ServersSilent(silent=False, detached=False) in bench.events)


async def test_a_server_is_silent_for_nobody_when_nothing_uses_it(watched: Any) -> None:
    async with watched() as bench:
        bench.sight = Sight.SILENT
        await bench.looked()
        await bench.runner.stop([TASK], "revoked")
        await eventually(lambda: ServersSilent(silent=False, detached=False) in bench.events)


async def test_the_address_of_sparks_own_page_is_said_until_spark_has_ended(watched: Any) -> None:
    async with watched() as bench:
        await eventually(lambda: bench.pages == ["http://driver:4040"])
        bench.sight = Sight.ENDED
        await eventually(lambda: bench.pages == ["http://driver:4040", ""])


# ---- what is seen


def spark_of(*, alive: bool = True, executors: int = 0, jobs: int = 0, master: str = "spark://m:7077") -> Any:
    stopped: list[bool] = []
    java = SimpleNamespace(
        statusTracker=lambda: SimpleNamespace(getExecutorInfos=lambda: [None] * (executors + 1)),
        stop=lambda: stopped.append(True),
    )
    context = SimpleNamespace(
        master=master,
        _jsc=SimpleNamespace(sc=lambda: java),
        statusTracker=lambda: SimpleNamespace(getActiveJobsIds=lambda: list(range(jobs))),
    )
    return SimpleNamespace(alive=alive, jvm=None, root=SimpleNamespace(sparkContext=context), stopped=stopped)


@pytest.mark.parametrize(
    ("spark", "said", "sight"),
    [
        ({"alive": False}, MasterSays.KNOWN, Sight.ENDED),
        ({"executors": 1, "jobs": 1}, MasterSays.FORGOTTEN, Sight.FINE),
        ({"executors": 1, "jobs": 1}, MasterSays.NOTHING, Sight.FINE),
        ({"jobs": 1, "master": "local[2]"}, MasterSays.FORGOTTEN, Sight.FINE),
        ({"jobs": 1}, MasterSays.KNOWN, Sight.WAITING),
        ({"jobs": 1}, MasterSays.NOTHING, Sight.MASTERLESS),
        ({"jobs": 0}, MasterSays.KNOWN, Sight.FINE),
        ({"jobs": 0}, MasterSays.NOTHING, Sight.FINE),
        ({"jobs": 0}, MasterSays.FORGOTTEN, Sight.ENDED),
    ],
)
def test_what_is_seen_of_spark(
    spark: dict[str, Any], said: MasterSays, sight: Sight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "ask_master", lambda _context: said)
    seen = spark_of(**spark)
    assert look_at(seen) is sight
    assert seen.stopped == ([True] if seen.alive and sight is Sight.ENDED else [])


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("spark://a:7077,b:7078", [("a", 7077), ("b", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("local[2]", []),
        ("yarn", []),
        ("spark://nonsense", []),
    ],
)
def test_the_addresses_in_a_master_url(url: str, found: list[tuple[str, int]]) -> None:
    assert standalone.addresses(url) == found


@pytest.mark.parametrize(
    ("master", "answers", "said"),
    [
        ("yarn", [], MasterSays.KNOWN),
        ("spark://a:1,b:2", [None, None], MasterSays.NOTHING),
        ("spark://a:1,b:2", [None, ["mine"]], MasterSays.KNOWN),
        ("spark://a:1,b:2", [None, ["another"]], MasterSays.FORGOTTEN),
    ],
)
def test_what_masters_say_of_an_application(
    master: str, answers: list[list[str] | None], said: MasterSays, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(answers)
    monkeypatch.setattr(standalone, "_applications", lambda _context, _host, _port: next(left))
    context: Any = SimpleNamespace(master=master, applicationId="mine")
    assert standalone.ask_master(context) is said


def test_spark_does_not_try_for_a_minute_to_reach_a_master_that_is_not_there() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as there:
        port = there.getsockname()[1]
        assert standalone.unreachable(f"spark://127.0.0.1:{port}") == ""
    with pytest.raises(SparkAwayError, match=rf"no Spark master can be reached at spark://127.0.0.1:{port} \("):
        SparkApplication().running_for("me", LocalSparkSettings(master=f"spark://127.0.0.1:{port}"))


def fails_to_answer() -> None:
    raise Py4JNetworkError("Answer from Java side is empty")


def silent_spark(jvm: subprocess.Popen[bytes], answer: Callable[[], Any]) -> RunningSpark:
    root: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=answer), master="local[2]"))
    return RunningSpark(number=1, root=root, jvm=jvm, shipment=Shipment(Path()))


def test_a_jvm_that_answers_no_more_and_ends_is_gone() -> None:
    """As after an OutOfMemoryError: it ends some moments after its last answer."""
    with subprocess.Popen(["sleep", "0.2"]) as jvm:
        spark = silent_spark(jvm, fails_to_answer)
        assert look_at(spark) is Sight.ENDED
        assert jvm.poll() == 0
        assert "its JVM's exit code is 0" in str(spark.gone())


def test_a_jvm_that_answers_no_more_and_lives_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "_END_S", 0.01)
    with subprocess.Popen(["sleep", "60"]) as jvm:
        spark = silent_spark(jvm, fails_to_answer)
        assert look_at(spark) is Sight.ENDED
        assert jvm.poll() is not None
        assert "its JVM did not answer any more" in str(spark.gone())


def test_a_jvm_that_answers_when_it_is_asked_again_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "_END_S", 0.01)
    answers: Iterator[Callable[[], Any]] = iter([fails_to_answer, lambda: SimpleNamespace(isStopped=lambda: False)])
    with subprocess.Popen(["sleep", "60"]) as jvm:
        assert silent_spark(jvm, lambda: next(answers)()).alive
        assert jvm.poll() is None
        jvm.kill()
