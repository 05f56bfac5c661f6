"""The code of a task can't break what its worker and others use, although all run in one process."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import cast

import pytest
from begun import begins_at_once
from waiting import DEADLINE_S, eventually

from airflow_provider.spark.job import SparkJob, TaskContext
from airflow_provider.spark.job.planning import SESSION_KEY
from airflow_provider.spark.runner import TaskOrder
from airflow_provider.spark.runners.attached_tasks.worker_process import WorkerProcess
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import Epoch, TaskId


def check_sockets() -> None:
    assert socket.getdefaulttimeout() is None


def warn_beside() -> None:
    warnings.warn("the library of another task says this", ImportWarning, stacklevel=1)


def log_beside() -> None:
    logging.getLogger().error("said beside")


def import_beside() -> None:
    sys.modules.pop("colorsys", None)
    importlib.import_module("colorsys")


CHANGES: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "sockets": (lambda: socket.setdefaulttimeout(1e-4), check_sockets),
    "warnings": (lambda: warnings.simplefilter("error", ImportWarning), warn_beside),
    "stdout": (lambda: sys.stdout.close(), lambda: print("said beside")),
    "stderr": (lambda: sys.stderr.close(), log_beside),
    "detached stdout": (lambda: cast("TextIOWrapper", sys.stdout).detach(), lambda: print("said beside")),
    "detached stderr": (
        lambda: cast("TextIOWrapper", sys.stderr).detach(),
        log_beside,
    ),
    "path": (lambda: sys.path.clear(), import_beside),
    "no stdout": (lambda: delattr(sys, "stdout"), lambda: print("said beside")),
}
"""What a task does, and what others can do nevertheless."""
MAY_END = threading.Event()


class Changes(SparkJob):
    def run(self, spark: object, task: TaskContext) -> None:
        if task.config["by"] in CHANGES:
            CHANGES[task.config["by"]][0]()
        assert task.config["at"] == "end" or MAY_END.wait(DEADLINE_S)


def changing(by: str, at: str) -> TaskOrder:
    config = {SESSION_KEY: False, "by": by, "at": at}
    return TaskOrder(task=TaskId("changes", 0), entry_point=f"{__name__}:Changes", config=config, epoch=Epoch(1))


@contextlib.contextmanager
def streams_to(file: Path) -> Iterator[None]:
    """Where the standard streams of this process write to, one of which a handler of logging has. This is for the body
    of a test: pytest changes them before.
    """
    root, descriptor = logging.getLogger(), os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with pytest.MonkeyPatch.context() as patched:
        for name in ("stdout", "stderr"):
            patched.setattr(sys, name, open(descriptor, "a", closefd=False))  # noqa: SIM115
        handler = logging.StreamHandler(sys.stderr)
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
            left = sys.stdout, sys.stderr
    for stream in left:
        stream.close()
    os.close(descriptor)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    MAY_END.clear()
    yield
    MAY_END.set()
    socket.setdefaulttimeout(None)


@pytest.mark.parametrize(("by", "at"), [*((by, "end") for by in CHANGES), ("stdout", "while it runs")])
async def test_others_go_on_when_a_task_has_changed_what_they_use(
    by: str, at: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with streams_to(tmp_path / "said"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)
        runner = begins_at_once(LocalRunner(lambda _: None, allowed=[__name__]))
        await runner.start(changing(by, at))
        await eventually(lambda: "for this whole process; put back" in caplog.text)
        CHANGES[by][1]()
        MAY_END.set()
        assert await runner.close() == frozenset()
    assert "std" not in by or "said beside" in (tmp_path / "said").read_text()


async def test_a_task_begins_as_others_have_when_nothing_ran_while_its_process_was_changed() -> None:
    """As by a thread that a task has left."""
    with warnings.catch_warnings():
        runner = begins_at_once(LocalRunner(lambda _: None, allowed=[__name__]))
        socket.setdefaulttimeout(1e-4)
        await runner.start(changing("nothing", "while it runs"))
        check_sockets()
        MAY_END.set()
        assert await runner.close() == frozenset()


class Inner(list[object]):
    """The filters of another thread's ``catch_warnings``, which ends when they are looked at for the second time."""

    def __init__(self, filters: list[object], outer: list[object]) -> None:
        super().__init__(filters)
        self.outer = outer
        self.looks = 0

    def __iter__(self) -> Iterator[object]:
        self.looks += 1
        if self.looks > 1:
            warnings.filters = self.outer  # type: ignore[assignment]
        return super().__iter__()


def test_what_another_thread_ignores_for_a_while_is_not_ignored_for_ever() -> None:
    process = WorkerProcess.as_it_is()
    outer: list[object] = [*warnings.filters]
    ignored, raised = ("ignore", None, ImportWarning, "beside", 0), ("error", None, ImportWarning, "rude", 0)
    inner = Inner([ignored, raised, *outer], outer)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(warnings, "filters", inner)
        process.put_back()
    assert raised not in list.__iter__(inner)
    assert ignored not in outer


def test_what_breaks_nothing_stays(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.MonkeyPatch.context() as patched, warnings.catch_warnings():
        process = WorkerProcess.as_it_is()
        warnings.simplefilter("always", BytesWarning)
        patched.setattr(sys, "stdout", sys.stderr)
        process.put_back()
        assert ("always", None, BytesWarning, None, 0) in warnings.filters
        assert sys.stdout is sys.stderr
    assert "put back" not in caplog.text


def test_the_worker_goes_on_if_nothing_can_be_put_back(caplog: pytest.LogCaptureFixture) -> None:
    process = WorkerProcess.as_it_is()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(warnings, "filters", None)
        process.put_back()
        process.put_back()
    assert [each.levelname for each in caplog.records if each.levelno > logging.DEBUG] == ["ERROR"]


def test_a_stream_whose_file_is_closed_too_takes_all_and_keeps_nothing(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdout", (tmp_path / "out").open("w"))
        process = WorkerProcess.as_it_is()
        sys.stdout.close()
        process.put_back()
        print("is lost, and is no error")
        sys.stdout.close()


def test_nothing_is_written_into_a_file_that_has_the_number_of_the_closed_one(tmp_path: Path) -> None:
    """As a new connection to a broker would get it."""
    descriptor, other = (os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT) for name in ("out", "other"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdout", open(descriptor, "w", closefd=False))  # noqa: SIM115
        process = WorkerProcess.as_it_is()
        sys.stdout.close()
        os.dup2(other, descriptor)
        process.put_back()
        print("is lost, and breaks nothing")
        sys.stdout.close()
    for each in (descriptor, other):
        os.close(each)
    assert (tmp_path / "other").read_text() == ""


ALARM = """
    import asyncio, signal
    from airflow_provider.spark.job import SparkJob
    from airflow_provider.spark.runner import TaskOrder
    from airflow_provider.spark.runners.local import LocalRunner
    from airflow_provider.values.model import TaskId

    class Alarm(SparkJob):
        def run(self, spark, task):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            task.wait(1e6)

    async def main():
        runner = LocalRunner(lambda event: runner.proceed(event.order.task), allowed=["__main__"])
        config = {"session": False}
        await runner.start(TaskOrder(task=TaskId("a", 0), entry_point="__main__:Alarm", config=config, epoch=1))
        await asyncio.sleep(1e6)

    asyncio.run(main())
"""


def test_a_timers_signal_ends_the_worker() -> None:
    """It has no handler: Python refuses to set one in the thread of a task."""
    code = textwrap.dedent(ALARM).replace('"session"', repr(SESSION_KEY))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=DEADLINE_S, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGALRM, b"")
