"""The JVM of this process: it ends with this process, or the next one under the same name ends it.

It reads a pipe from this process, and ends when the pipe is closed. Processes that job code forks would keep the pipe
open, so each child closes its end immediately. But a fork that Python does not know of (by a native library) keeps the
JVM of a killed process alive. If tasks ran there, it goes on with what they have begun until their lease is over
(:mod:`airflow_provider.spark.local.driver_jvm.jvm_lease`). So a worker's record names its JVM.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from subprocess import Popen
from typing import Final

from airflow_provider.values.procfs import is_over, start_of, variable_of

OWNER: Final = "COSPARK_JVM_OWNER"
"""The environment variable of a JVM that names the process (``pid/start``) which has started it."""

_present: Popen[bytes] | None = None


def mark_next_jvm() -> None:
    """Make the JVM that is started next name this process in its environment."""
    os.environ[OWNER] = f"{os.getpid()}/{_started(os.getpid())}"


def jvm_started(process: Popen[bytes] | None) -> None:
    """Remember the JVM of this process; None: somebody else has started it."""
    global _present
    _present = process


def present_jvm() -> str:
    """``pid/start`` of the JVM that this process has started; empty if there is none."""
    if _present is None or _present.poll() is not None:
        return ""
    return f"{_present.pid}/{_started(_present.pid)}"


def kill_ownerless_jvm(pid: int, start: str) -> bool:
    """Kill a JVM whose worker has ended. Its environment must name an ended process, so that nothing else is killed:
    the ids come from a topic, to which others may write.

    :returns: whether a signal was sent
    """
    try:
        handle = os.pidfd_open(pid)
    except (OSError, AttributeError):
        return False
    try:
        if start_of(pid) != start or not _has_ended(variable_of(pid, OWNER)):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _has_ended(owner: str | None) -> bool:
    pid, _, start = (owner or "").partition("/")
    return pid.isdecimal() and start.isdecimal() and is_over(int(pid), start)


@functools.cache
def _started(pid: int) -> str:
    return start_of(pid) or ""


def _leave_pipe_to_parent() -> None:
    if _present is not None and _present.stdin is not None:
        with contextlib.suppress(OSError):
            _present.stdin.close()


os.register_at_fork(after_in_child=_leave_pipe_to_parent)
