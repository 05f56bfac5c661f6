"""A process ends although a job has left something running in it, for which Python would wait."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from waiting import DEADLINE_S

COMMAND = """
    import atexit, multiprocessing, os, sys, threading, time, types
    from concurrent.futures import ThreadPoolExecutor
    from airflow_provider.cli import main

    def leave(args):
        {leave}
        return 3

    if __name__ == "__main__":
        main.GRACE_S = {grace_s}
        sys.modules["airflow_provider.cli.offline.decode"] = types.SimpleNamespace(
            add_arguments=lambda parser: None, run=leave
        )
        sys.argv[1:] = ["decode"]
        sys.exit(main.{called})
"""


def ended(leave: str, grace_s: float, called: str = "program()") -> subprocess.CompletedProcess[str]:
    """A process of ``cospark`` whose command leaves something."""
    code = textwrap.dedent(COMMAND).format(leave=leave, grace_s=grace_s, called=called)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_S, check=False)


@pytest.mark.parametrize(
    ("leave", "named"),
    [
        ('ThreadPoolExecutor(1, "of-a-job").submit(time.sleep, 1e6)', "thread 'of-a-job_0'"),
        ("threading.Timer(1e6, print).start()", "thread 'Thread-1'"),
        (
            'multiprocessing.get_context("fork").Process(target=time.sleep, args=(1e6,), name="child").start()',
            "process 'child'",
        ),
        ("atexit.register(time.sleep, 1e6)", "a function of atexit"),
    ],
)
def test_it_names_what_keeps_it_and_ends_with_its_own_status(leave: str, named: str) -> None:
    process = ended(leave, 0.2)
    assert process.returncode == 3
    assert f"still running 0.2 s after the end: {named}; a job has left them" in process.stderr


def test_idle_pools_end_with_it() -> None:
    process = ended('ThreadPoolExecutor(1, "of-a-job").submit(print, "done").result()', 1e6)
    assert (process.returncode, process.stdout, process.stderr) == (3, "done\n", "")


def test_who_calls_a_command_within_a_process_of_its_own_keeps_that() -> None:
    process = ended("threading.Timer(3, print, ['and on it goes']).start()", 0.2, "main(['decode'])")
    assert (process.returncode, process.stdout, process.stderr) == (3, "and on it goes\n", "")
