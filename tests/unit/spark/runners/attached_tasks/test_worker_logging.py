"""The code of a task can't silence its worker, although both log in one process."""

from __future__ import annotations

import logging
import logging.config
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from begun import begins_at_once
from waiting import DEADLINE_S, eventually

from airflow_provider.kafka.topics.librdkafka import COMMON
from airflow_provider.spark.job import JobContext, SparkJob
from airflow_provider.spark.runner import RunnerEvent, TaskFinished, TaskOrder
from airflow_provider.spark.runners.attached_tasks.worker_logging import WorkerLogging
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import Epoch, planner_of

OURS = logging.getLogger("airflow_provider.spark.runners.attached_tasks.attached")


def set_levels(level: int) -> None:
    for each in logging.getLogger().handlers:
        each.setLevel(level)


CHANGES: dict[str, Callable[[], None]] = {
    "dictConfig": lambda: logging.config.dictConfig({"version": 1}),
    "new handlers": lambda: logging.config.dictConfig({"version": 1, "root": {"level": "CRITICAL", "handlers": []}}),
    "force": lambda: logging.basicConfig(force=True, level=logging.CRITICAL),
    "disable": lambda: logging.disable(logging.CRITICAL),
    "levels": lambda: set_levels(logging.CRITICAL + 1),
}
may_end = threading.Event()


class Changes(SparkJob):
    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        CHANGES[job.config["by"]]()
        assert job.config["at"] == "end" or may_end.wait(DEADLINE_S)
        return []


class Heard(logging.Handler):
    """The handler of the worker."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def heard() -> Iterator[Heard]:
    root, handler = logging.getLogger(), Heard()
    before, level = list(root.handlers), root.level
    root.addHandler(handler)
    may_end.clear()
    as_before = WorkerLogging.as_it_is()
    yield handler
    may_end.set()
    as_before.put_back()
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize("by", list(CHANGES))
@pytest.mark.parametrize("at", ["end", "while it runs"])
async def test_the_worker_is_heard_after_a_task_has_changed_the_logging(heard: Heard, by: str, at: str) -> None:
    events: list[RunnerEvent] = []
    runner = begins_at_once(LocalRunner(events.append, allowed=[__name__]))
    task = planner_of("changes")
    order = TaskOrder(task=task, entry_point=f"{__name__}:Changes", config={"by": by, "at": at}, epoch=Epoch(1))
    await runner.start(order)
    if at == "end":
        await eventually(lambda: any(isinstance(event, TaskFinished) for event in events), "the plan is made")
    else:
        await eventually(lambda: any("had changed the logging" in message for message in heard.messages))
    OURS.warning("the worker goes on")
    assert heard.messages[-1] == "the worker goes on"
    may_end.set()
    assert await runner.close() == frozenset()


def test_a_logger_that_was_made_silent_stays_so(heard: Heard) -> None:
    """As that of PySpark's Spark Connect client, which is imported with the first session: it would log each call that
    a lost server does not answer as an error.
    """
    logging_of_worker = WorkerLogging.as_it_is()
    silent, other = logging.getLogger("of.a.library.made.silent"), logging.getLogger("of.a.library.made.later")
    silent.disabled = True
    logging_of_worker.put_back()
    assert silent.disabled
    assert heard.messages == [], "nobody has changed anything"
    logging.config.dictConfig({"version": 1})
    assert other.disabled
    logging_of_worker.put_back()
    assert (silent.disabled, other.disabled, OURS.disabled) == (True, False, False)


def test_a_logger_that_this_package_has_silenced_stays_so_and_no_task_is_blamed(heard: Heard) -> None:
    WorkerLogging.as_it_is().put_back()
    assert heard.messages == [], "nobody has changed anything"
    COMMON["logger"].critical("the code that uses the client says it better")
    assert heard.messages == []


class Rude(logging.Handler):
    """A handler of a task."""

    def emit(self, record: logging.LogRecord) -> None:
        raise RuntimeError("no log for you")


async def test_what_a_tasks_handler_raises_ends_with_what_is_logged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As long as a runner of another test is not closed, loggers are not those of Python.
    monkeypatch.setattr(logging.Logger, "handle", lambda self, record: self.callHandlers(record))
    root, rude = logging.getLogger(), Rude()
    runner = LocalRunner(lambda _: None, allowed=[])
    root.addHandler(rude)
    try:
        OURS.warning("the worker goes on")
        assert await runner.close() == frozenset()
        with pytest.raises(RuntimeError, match="no log for you"):
            OURS.warning("there is no worker")
    finally:
        root.removeHandler(rude)
    assert "RuntimeError: no log for you" in capsys.readouterr().err
