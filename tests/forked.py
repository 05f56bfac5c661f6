"""Processes of ``cospark`` for tests, forked from one that has imported what they need: that spares half a second of a
core for each worker, and two with Spark Connect. What runs in them is the command's own ``main``, or another one.
"""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final
from unittest.mock import patch

_PRELOADED: Final = "imported_by_workers"
COSPARK: Final = "airflow_provider.cli.main"


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    # Python 3.11 and older don't give the server this process's sys.path.
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        forkserver.ensure_running()
    return context


class Forked:
    """A running command, with the methods of :class:`subprocess.Popen` that tests use.

    :param arguments: of ``cospark``
    :param log: its output is appended to this file
    :param env: all of its environment
    :param module: whose ``main`` takes the arguments and returns the exit status
    """

    def __init__(self, arguments: Sequence[str], *, log: Path, env: Mapping[str, str], module: str = COSPARK) -> None:
        log.touch()  # whoever reads it may be faster than the fork
        self._process = _context().Process(target=_run, args=(module, list(arguments), str(log), dict(env)))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("cospark", timeout or 0)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        if self._process.is_alive():
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(module: str, arguments: list[str], log: str, env: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)
    sys.path[:0] = [folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder]
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in (1, 2):
        os.dup2(output, number)
    assert _PRELOADED in sys.modules, "the server has imported nothing: it keeps silent about what it can't import"
    status = 1
    try:
        status = importlib.import_module(module).main(arguments)
    finally:
        atexit._run_exitfuncs()
    sys.exit(status)
