"""What tasks may use in the process of their worker is put back if one of them has made it less."""

from __future__ import annotations

import gc
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider.spark.runners.attached_tasks.worker_limits import WorkerLimits

NONE = resource.RLIM_INFINITY
LIMIT = resource.RLIMIT_NOFILE


def system_limit() -> int:
    return resource.getrlimit(LIMIT)[0]


def set_system_limit(soft: int) -> None:
    resource.setrlimit(LIMIT, (soft, resource.getrlimit(LIMIT)[1]))


READ: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "the recursion limit": (sys.getrecursionlimit, lambda now: sys.setrecursionlimit(now - 1)),
    "the interval after which threads are switched": (
        sys.getswitchinterval,
        lambda now: sys.setswitchinterval(2 * now),
    ),
    "limits of the operating system": (system_limit, lambda now: set_system_limit(now - 1)),
    "sys.path": (lambda: [*sys.path], lambda _: sys.path.clear()),
    "what traces or profiles new threads": (
        lambda: (threading.gettrace(), threading.getprofile()),
        lambda _: threading.setprofile(lambda *_: None),
    ),
    "threading.excepthook": (lambda: threading.excepthook, lambda _: setattr(threading, "excepthook", None)),
    "sys.excepthook": (lambda: sys.excepthook, lambda _: delattr(sys, "excepthook")),
}
"""By the name of what is put back: how it is read, and how a task makes less of it."""
MORE: dict[str, Callable[[Any], object]] = {
    "the recursion limit": lambda now: sys.setrecursionlimit(now + 1),
    "the interval after which threads are switched": lambda now: sys.setswitchinterval(now / 2),
    "sys.path": lambda _: sys.path.insert(0, "of a task"),
}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    recursion, switch_s, path, system = sys.getrecursionlimit(), sys.getswitchinterval(), sys.path, system_limit()
    content = [*path]
    profile, hook, hook_of_main = threading.getprofile(), threading.excepthook, sys.excepthook
    threading.excepthook = threading.__excepthook__  # pytest has its own
    sys.excepthook = sys.__excepthook__
    yield
    threading.excepthook = hook
    sys.excepthook = hook_of_main
    threading.setprofile(profile)
    sys.setrecursionlimit(recursion)
    sys.setswitchinterval(switch_s)
    gc.enable()
    set_system_limit(system)
    sys.path = path
    path[:] = content


def test_the_collection_of_garbage_stays_off_while_pyspark_calls_a_server() -> None:
    limits = WorkerLimits.as_they_are()
    gc.disable()
    assert list(limits.put_back()) == []
    assert not gc.isenabled()


@pytest.mark.parametrize("name", list(READ))
def test_what_a_task_has_made_less_is_put_back(name: str) -> None:
    read, make_less = READ[name]
    limits, before = WorkerLimits.as_they_are(), read()
    make_less(before)
    assert list(limits.put_back()) == [name]
    assert read() == before
    assert list(limits.put_back()) == []


@pytest.mark.parametrize("name", list(MORE))
def test_what_a_task_has_made_more_stays(name: str) -> None:
    read, _ = READ[name]
    limits, before = WorkerLimits.as_they_are(), read()
    MORE[name](before)
    changed = read()
    assert list(limits.put_back()) == []
    assert changed == read() != before


def test_folders_that_a_task_has_added_come_first() -> None:
    limits, before = WorkerLimits.as_they_are(), [*sys.path]
    sys.path = ["of a task", before[1]]
    assert list(limits.put_back()) == ["sys.path"]
    assert sys.path == ["of a task", before[1], *(folder for folder in before if folder != before[1])]


def test_modules_are_found_again_when_a_task_has_removed_the_path_itself() -> None:
    limits, before = WorkerLimits.as_they_are(), [*sys.path]
    sys.path = None  # type: ignore[assignment]  # tasks do such things
    assert list(limits.put_back()) == ["sys.path"]
    assert sys.path == before


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ((5, 100), 10),
        ((5, NONE), 10),
        ((5, 7), 7),
        ((50, 100), 50),
        ((NONE, NONE), NONE),
    ],
)
def test_a_limit_of_the_system_is_put_back_as_far_as_it_may_be(
    now: tuple[int, int], then: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = WorkerLimits({LIMIT: 10}, 0, 1, (), (threading.gettrace(), threading.getprofile()))
    monkeypatch.setattr(resource, "getrlimit", lambda _: now)
    put: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, soft_and_hard: put.append(soft_and_hard))
    list(limits.put_back())
    assert put == ([(then, now[1])] if then != now[0] else [])


def test_no_limit_is_put_back_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = WorkerLimits({LIMIT: NONE}, 0, 1, (), (threading.gettrace(), threading.getprofile()))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (5, NONE))
    put: list[Any] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, soft_and_hard: put.append(soft_and_hard))
    assert list(limits.put_back()) == ["limits of the operating system"]
    assert put == [(NONE, NONE)]
