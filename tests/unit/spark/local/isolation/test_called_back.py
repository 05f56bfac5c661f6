"""What Spark calls in the process of a worker is answered once, and by the worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from airflow_provider.spark.local.isolation.called_back import methods_that_answer_once

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
_CAME_BACK = 99


def answer_of(function: Callable[[], object]) -> str:
    """What Spark is told when it calls this function."""
    process = os.getpid()
    ((_, _, answer),) = methods_that_answer_once()
    asked = SimpleNamespace(readline=lambda: b"call\n")
    connection = SimpleNamespace(
        pool={"p0": SimpleNamespace(call=function)},
        _get_params=lambda _: [],
        python_parameters=SimpleNamespace(propagate_java_exceptions=False),
    )
    try:
        return str(answer(connection, "p0", asked))
    finally:
        if os.getpid() != process:
            os._exit(_CAME_BACK)


@pytest.mark.parametrize(("end", "status"), [(lambda: None, 0), (lambda: sys.exit(7), 7)])
def test_a_process_that_the_function_has_forked_does_not_answer(end: Callable[[], object], status: int) -> None:
    seen: list[int] = []

    def forks() -> None:
        child = os.fork()
        if not child:
            end()
            return
        seen.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    assert answer_of(forks) == "!yn\n", "it has returned None"
    assert seen == [status]


@pytest.mark.parametrize("leave", [lambda: sys.exit(7), lambda: [][0]])
def test_a_function_that_leaves_its_thread_is_an_error_as_others_are(leave: Callable[[], object]) -> None:
    answer = answer_of(leave)
    assert answer.startswith("!xsTraceback")
    assert answer.rstrip().endswith(("SystemExit: 7\\n", "IndexError: list index out of range\\n"))
