"""Who leaves something open is found, and not who runs when garbage is collected."""

from __future__ import annotations

import gc
import socket
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from left_open import found_open, pytest_runtest_protocol

HERE, THERE = Path("test_here.py"), Path("test_there.py")


class Forgetful:
    """Is garbage when nobody knows it any more, and its socket is open."""

    def __init__(self) -> None:
        self.me = self
        self.socket = socket.socket()


@pytest.fixture(autouse=True)
def _nothing_of_others() -> Iterator[None]:
    """Nor is it looked at, which takes half a second for each collection."""
    gc.freeze()
    yield
    gc.unfreeze()


def reported(next_path: Path | None) -> list[pytest.TestReport]:
    """What a test is said to have left, which does so, and after which one of that file comes."""
    reports: list[pytest.TestReport] = []

    def log(report: pytest.TestReport) -> None:
        reports.append(report)

    item: Any = SimpleNamespace(
        nodeid=f"{HERE}::test_it", path=HERE, ihook=SimpleNamespace(pytest_runtest_logreport=log)
    )
    after: Any = next_path and SimpleNamespace(path=next_path)
    running: Generator[None, object, object] = pytest_runtest_protocol(item, after)
    next(running)
    Forgetful()
    with pytest.raises(StopIteration) as ended:
        running.send(True)
    assert ended.value.value is True, "what pytest hears is what it heard before"
    return reports


@pytest.mark.parametrize("next_path", [None, THERE])
def test_a_module_that_leaves_a_socket_open_fails_at_its_end(next_path: Path | None) -> None:
    (report,) = reported(next_path)
    assert report.failed
    assert report.nodeid.startswith("test_here.py::")
    assert str(report.longrepr).startswith("E   unclosed <socket.socket ")


def test_before_its_end_nothing_is_looked_for() -> None:
    assert reported(HERE) == []
    assert len(found_open()) == 1
