"""What a process has open is not a forked one's."""

from __future__ import annotations

import subprocess
import sys
import weakref

import pytest

from airflow_provider.kafka.per_process import PerProcess

FORK = """
import os
from airflow_provider.kafka.per_process import PerProcess

opened = PerProcess(list)
opened.own.append("a client")
child = os.fork()
if not child:
    os._exit(len(opened.own))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(opened.own))
"""


class Open:
    """What can be referred to weakly."""


@pytest.mark.slow
def test_a_forked_process_has_nothing_open() -> None:
    told = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["0", "1"]


def test_what_it_left_alone_is_never_destroyed() -> None:
    opened = PerProcess(Open)
    before = weakref.ref(opened.own)
    opened.start_over()
    assert before() is not None
    assert before() is not opened.own
