"""A job's code that forks the process of its worker."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from attempt_jobs import JOBS, order
from fake_session import FakeSession
from waiting import DEADLINE_S

from airflow_provider.spark.attempts.failures import nothing_secret
from airflow_provider.spark.attempts.run_attempt import run_attempt
from airflow_provider.spark.job import SparkJob, TaskContext
from airflow_provider.spark.job.fencing import AttemptGuard, EndlessLease
from airflow_provider.spark.local.isolation import thread_owners
from airflow_provider.spark.runner import TaskFinished, WarmUpReady
from airflow_provider.spark.warm_up import WarmUpGuard, warm_up

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
ENDS: dict[str, tuple[Any, int]] = {
    "returns": (lambda: None, 0),
    "sys.exit()": (sys.exit, 0),
    "sys.exit(7)": (lambda: sys.exit(7), 7),
    "sys.exit(2**40 + 8)": (lambda: sys.exit(2**40 + 8), 8),
    "fails": (lambda: int("tok3n"), 1),
}
_CAME_BACK = 99


def masked(text: str) -> str:
    return text.replace("tok3n", "***")


def forked(end: str) -> int:
    """The exit status of a child that ends in this way."""
    child = os.fork()
    if not child:
        ENDS[end][0]()
        return -1
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Forks(SparkJob):
    def run(self, spark: object, task: TaskContext) -> int:
        return forked(task.config["end"])

    def warm_up(self, spark: object, task: TaskContext) -> None:
        assert forked("returns") in {0, -1}


class Session(FakeSession):
    """One that ends the child if it comes back: it must not go on with the tests."""

    def __init__(self) -> None:
        super().__init__()
        self.process = os.getpid()

    def left_running(self, value: object) -> str | None:
        if os.getpid() != self.process:
            os._exit(_CAME_BACK)
        return super().left_running(value)

    def close(self) -> None:
        if os.getpid() != self.process:
            os._exit(_CAME_BACK)
        super().close()


@pytest.mark.parametrize("end", list(ENDS))
def test_a_child_that_comes_back_from_a_jobs_code_ends_there(end: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It says why as Python would, but for the secrets."""
    guard, session = AttemptGuard(EndlessLease()), Session()
    guard.proceed()
    last = run_attempt(order("forks", end=end), guard, session, [JOBS], lambda _: None, masked, job=Forks())
    assert isinstance(last, TaskFinished), last
    assert last.result == ENDS[end][1]
    assert session.closed == 1
    said = capfd.readouterr().err
    assert "tok3n" not in said
    assert said.endswith("ValueError: invalid literal for int() with base 10: '***'\n" if end == "fails" else "")
    assert ("Traceback (most recent call last):" in said) is (end == "fails")


def test_so_does_one_of_a_warm_up() -> None:
    to_warm, process = replace(order("forks"), bounded=True), os.getpid()
    done = warm_up(to_warm, WarmUpGuard(), Session(), Forks, lambda _far: None, nothing_secret)
    if os.getpid() != process:
        os._exit(_CAME_BACK)
    assert done.outcome == WarmUpReady(order=to_warm)


def only_the_parent(call: Callable[[], object]) -> None:
    """Call what forks: the child must not come back from it."""
    process = os.getpid()
    try:
        call()
    finally:
        if os.getpid() != process:
            os._exit(_CAME_BACK)


@pytest.mark.parametrize("end", list(ENDS))
def test_so_does_one_of_a_fenced_batch(end: str, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[int] = []
    task = TaskContext(job="forks", index=0, config={}, epoch=1, checkpoint_location="")
    write = task.foreach_batch(lambda _batch, _batch_id: seen.append(forked(end)))
    only_the_parent(lambda: write(None, 1))  # type: ignore[arg-type]  # nobody looks at the batch
    assert seen == [ENDS[end][1]]
    said = capfd.readouterr().err  # gRPC may say there that somebody has forked
    assert "tok3n" not in said, "nobody knows the secrets here"
    assert ("ValueError\n" in said) is (end == "fails")


@pytest.fixture
def _as_a_task() -> Iterator[None]:
    """This thread belongs to a task."""
    kind = type("Session", (), {"Builder": type("Builder", (), {})})
    nobody = thread_owners.session_for_nobody
    thread_owners.install(thread_owners.Sessions(kind=kind, configure=lambda *_: None, for_nobody=nobody))
    thread_owners.own_this_thread(thread_owners.Owner("session", lambda: lambda: None))
    yield
    thread_owners.disown_threads()
    thread_owners.uninstall()


def in_a_pool(call: Callable[[], int]) -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(DEADLINE_S)


def in_a_thread(call: Callable[[], int]) -> int:
    told: Future[int] = Future()
    thread = threading.Thread(target=lambda: told.set_result(call()))
    thread.start()
    thread.join(DEADLINE_S)
    return told.result(0)


@pytest.mark.usefixtures("_as_a_task")
@pytest.mark.parametrize("end", list(ENDS))
@pytest.mark.parametrize("somewhere", [in_a_pool, in_a_thread])
def test_so_does_one_of_a_thread_of_a_task(somewhere: Callable[[Callable[[], int]], int], end: str) -> None:
    assert somewhere(lambda: forked(end)) == ENDS[end][1]
