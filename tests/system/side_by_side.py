"""Tests that wait most of the time, side by side in the one Airflow that they share.

pytest runs one test after the other. When it comes to the first test with the mark ``side_by_side``, the bodies of all
of them begin here, in threads, a few at a time and in pytest's order; what pytest then runs as a test waits for its
body. Each body has groups of its own and leaves scheduler, triggerer and broker alone, so none notices another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import pytest

MARK: Final = "side_by_side"
AT_A_TIME: Final = 3

Bodies = dict[str, Future[None]]
"""By the tests' ids."""


def is_side_by_side(item: pytest.Item) -> bool:
    return item.get_closest_marker(MARK) is not None


@contextmanager
def running(
    items: Iterable[pytest.Item], fixtures: Callable[[], AbstractContextManager[dict[str, Any]]]
) -> Iterator[Bodies]:
    """Begin the bodies of those of the tests that have the mark.

    :param fixtures: makes what a body may name as its arguments; entered and left by each body in its thread
    """

    def run(item: pytest.Function) -> None:
        with fixtures() as made:
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
