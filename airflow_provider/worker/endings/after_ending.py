"""How a worker goes on when a run of it has ended: one table for all processes that hold workers.

After each run, the process looks up what comes next. Some of it, it does itself: ``standing_back.py`` waits and joins
again, and ``holding.py`` continues with a membership or joins anew. The rest is for those that have asked for the run:
the operator (``operators/spark_worker.py``), the trigger (``triggers/worker.py``), and ``cospark worker``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from airflow_provider.worker.endings.ending import Ending


class Process(Enum):
    """Who holds the worker."""

    TASK = "the process of its task"
    TRIGGERER = "a triggerer"
    COMMAND = "cospark worker"


class Finding(Enum):
    """What the process has found out besides how the run has ended. It looks only for what can matter then."""

    NOTHING = "nothing"
    STAYS = "this process is to continue it"
    """The task's process: there is work again. A triggerer: the connection has changed, or it was asked to leave
    meanwhile."""
    OWN = "another process of the same task has taken its name"
    STUCK = "this, and tasks of it still run in this process"
    MAY_END_TASK = "nothing needs the process of its task"


class Next(Enum):
    """What comes next."""

    STAND_BACK = "it waits in this process until it can run tasks, and joins again"
    GO_ON = "it continues in this process with what it has saved"
    TAKE_OVER = "it joins again in this process under its name, with what it has saved"
    JOIN = "it joins again in this process as a new member"
    REOPEN = "it continues in this process, by the connection as it is now"
    DEFER = "a triggerer continues it"
    RESUME = "the process of its task continues it, or ends the task"
    SUCCEED = "its task succeeds"
    RETRY = "its task fails, and may be tried again"
    FAIL = "its task fails for good"


TABLE: Final[Mapping[tuple[Process, Ending, Finding], Next]] = {
    **{
        (process, ending, Finding.NOTHING): Next.STAND_BACK
        for process in Process
        for ending in Ending
        if ending.stands_back
    },
    (Process.TASK, Ending.DRAINED, Finding.NOTHING): Next.SUCCEED,
    (Process.TASK, Ending.LEFT, Finding.NOTHING): Next.SUCCEED,
    (Process.TASK, Ending.IDLE, Finding.NOTHING): Next.FAIL,
    (Process.TASK, Ending.HANDED_OVER, Finding.STAYS): Next.GO_ON,
    (Process.TASK, Ending.HANDED_OVER, Finding.NOTHING): Next.DEFER,
    (Process.TASK, Ending.FENCED, Finding.OWN): Next.JOIN,
    (Process.TASK, Ending.FENCED, Finding.STUCK): Next.RETRY,
    (Process.TASK, Ending.FENCED, Finding.NOTHING): Next.FAIL,
    (Process.TASK, Ending.FAILED, Finding.NOTHING): Next.RETRY,
    (Process.TRIGGERER, Ending.DRAINED, Finding.MAY_END_TASK): Next.SUCCEED,
    (Process.TRIGGERER, Ending.DRAINED, Finding.NOTHING): Next.RESUME,
    (Process.TRIGGERER, Ending.LEFT, Finding.MAY_END_TASK): Next.SUCCEED,
    (Process.TRIGGERER, Ending.LEFT, Finding.NOTHING): Next.RESUME,
    (Process.TRIGGERER, Ending.IDLE, Finding.NOTHING): Next.RESUME,
    (Process.TRIGGERER, Ending.HANDED_OVER, Finding.STAYS): Next.REOPEN,
    (Process.TRIGGERER, Ending.HANDED_OVER, Finding.NOTHING): Next.RESUME,
    (Process.TRIGGERER, Ending.FENCED, Finding.OWN): Next.TAKE_OVER,
    (Process.TRIGGERER, Ending.FENCED, Finding.NOTHING): Next.RESUME,
    (Process.TRIGGERER, Ending.FAILED, Finding.NOTHING): Next.RESUME,
    (Process.COMMAND, Ending.DRAINED, Finding.NOTHING): Next.SUCCEED,
    (Process.COMMAND, Ending.LEFT, Finding.NOTHING): Next.SUCCEED,
    (Process.COMMAND, Ending.IDLE, Finding.NOTHING): Next.FAIL,
    (Process.COMMAND, Ending.HANDED_OVER, Finding.NOTHING): Next.FAIL,
    (Process.COMMAND, Ending.FENCED, Finding.NOTHING): Next.FAIL,
    (Process.COMMAND, Ending.FAILED, Finding.NOTHING): Next.FAIL,
}


def what_next(process: Process, ending: Ending, found: Finding = Finding.NOTHING) -> Next:
    """What comes after a run that has ended in this way."""
    return TABLE[process, ending, found]
