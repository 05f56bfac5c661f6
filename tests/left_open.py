"""Fails the test module that leaves something open.

An unclosed socket is noticed only when the garbage collector runs, and pytest then fails whichever test is running. So
at the levels whose tests open sockets and start processes, garbage is collected after each module. It takes some 50 ms.
"""

from __future__ import annotations

import gc
import tracemalloc
import warnings
from collections.abc import Generator, Sequence

import pytest

_WHAT = "what the module left open"


def found_open() -> Sequence[str]:
    """The warnings about garbage that was not closed, with where it was created if that is traced."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        gc.collect()
    return [_words(each) for each in seen if issubclass(each.category, ResourceWarning)]


def _words(warning: warnings.WarningMessage) -> str:
    made = tracemalloc.get_object_traceback(warning.source)
    return "\n".join([str(warning.message), *(made.format() if made else ())])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """For the ``conftest.py`` of a level. A fixture ends too early: the last test still holds its values then."""
    result = yield
    if (nextitem is None or nextitem.path != item.path) and (left := found_open()):
        file = item.nodeid.partition("::")[0]
        report = pytest.TestReport(
            nodeid=f"{file}::{_WHAT}",
            location=(file, None, _WHAT),
            keywords={},
            outcome="failed",
            longrepr="\n".join(f"E   {each}" for each in left),
            when="teardown",
        )
        item.ihook.pytest_runtest_logreport(report=report)
    return result
