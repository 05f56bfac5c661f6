"""Tests that mostly wait run side by side in one shared Airflow.

pytest runs one test after the other. At the first test with the mark ``side_by_side``, the bodies of all marked tests
begin in threads, a few at a time and in pytest's order; each test that pytest then runs waits for its body. Each body
has groups of its own and leaves scheduler, triggerer and broker alone, so that they don't disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import pytest
from left_behind import SIDE_BY_SIDE

MARK: Final = "side_by_side"
AT_A_TIME: Final = 4

Bodies = dict[str, Future[None]]
"""The running bodies, by test id."""


def is_side_by_side(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARK) is not None


@contextmanager
def running(
    items: Iterable[pytest.Item], fixtures: Callable[[str], AbstractContextManager[dict[str, Any]]]
) -> Iterator[Bodies]:
    """Begin the bodies of the marked tests.

    :param fixtures: makes the fixtures that a body may take, for the test with this id; entered and left in the thread
        of each body
    """

    def run(item: pytest.Function) -> None:
        SIDE_BY_SIDE.set(item.nodeid)
        with fixtures(item.nodeid) as made:
            given = {**made, **(item.callspec.params if hasattr(item, "callspec") else {})}
            item.obj(**{name: given[name] for name in item._fixtureinfo.argnames})

    pool = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix=MARK)
    try:
        yield {
            item.nodeid: pool.submit(run, item)
            for item in items
            if isinstance(item, pytest.Function) and is_side_by_side(item)
        }
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
