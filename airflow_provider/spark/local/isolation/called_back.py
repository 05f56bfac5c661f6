"""What Spark calls in this process: functions of ``foreachBatch``, and listeners. It has a few connections for that,
which all tasks share, and waits for one answer to each call.

A process that such a function has forked, and that comes back from it, would answer before the worker: a batch would
count as written that is not, and the worker's own answer would be taken for that of the next call, of any task. And if
a function exits its thread, there would be no answer, and its query would wait for ever.
"""
# ruff: noqa: SLF001 - py4j has no public way

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any

from airflow_provider.spark.local.isolation.forks import only_in_this_process


def methods_that_answer_once() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    """The method by which Spark calls Python, with its class and name, such that it returns once, in this process."""
    from py4j import protocol
    from py4j.clientserver import ClientServerConnection

    call = ClientServerConnection._call_proxy

    def answer_once(connection: Any, *args: Any) -> Any:
        try:
            with only_in_this_process():
                return call(connection, *args)
        except Exception:
            raise
        except BaseException:  # noqa: BLE001 - as py4j answers with an Exception
            told = protocol.get_command_part(traceback.format_exc(), connection.pool)
            return f"{protocol.RETURN_MESSAGE}{protocol.ERROR}{told}"

    yield ClientServerConnection, "_call_proxy", answer_once
