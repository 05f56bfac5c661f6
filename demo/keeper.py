"""Runs one command and ends it, with all processes that it left behind, as soon as its owner has ended.

Started by :mod:`demo.processes` as a script of its own, so that it survives an owner that gets SIGKILL:
``python watchdog.py LOG_FILE COMMAND...``. It prints the command's process id as one line. After that each line of
standard input is a number of seconds: end the command with SIGTERM and, that many seconds later, all that is left with
SIGKILL. The end of the input (the owner has closed it, or has died) means the same as the number zero.

Descendants that lose their parent become children of the keeper and not of init (PR_SET_CHILD_SUBREAPER, Linux), so
that processes with a session of their own are found, too.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05


def main(log_file: str, *command: str) -> int:
    """Keep ``command``, and return its exit status, as a shell would."""
    wake = _wake_on_child_exit()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    with Path(log_file).open("ab", buffering=0) as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        )
        sys.stdout.write(f"{child.pid}\n")
        sys.stdout.flush()
        try:
            _wait_for_end(child, wake)
        finally:
            _kill_descendants()
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _wake_on_child_exit() -> int:
    """A file descriptor that becomes readable when a child has ended."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def _wait_for_end(child: subprocess.Popen[bytes], wake: int) -> None:
    """Return when the command has ended, by itself or because the owner asked."""
    stdin = sys.stdin.fileno()
    while child.poll() is None:
        readable, _, _ = select.select([stdin, wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
            _reap_orphans(child.pid)
        if stdin in readable:
            line = os.read(stdin, 64).decode().strip()
            _end(child, grace_s=float(line.splitlines()[-1]) if line else 0.0)


def _end(child: subprocess.Popen[bytes], *, grace_s: float) -> None:
    if grace_s > 0:
        child.send_signal(signal.SIGTERM)
        _wait_until(lambda: child.poll() is not None, deadline=time.monotonic() + grace_s)
    _kill_descendants()
    child.wait()


def _kill_descendants() -> None:
    """Send SIGKILL to all descendants of this process, repeatedly until none is left, as they may be forking."""
    this = psutil.Process()
    while killed := [process for process in this.children(recursive=True) if _kill(process)]:
        psutil.wait_procs(killed, timeout=_POLL_S)


def _kill(process: psutil.Process) -> bool:
    """Send SIGKILL to one process; False if it had already ended."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True


def _reap_orphans(kept: int) -> None:
    """Collect the exit status of ended children, except the command itself, which :mod:`subprocess` collects."""
    for process in psutil.Process().children():
        if process.pid != kept:
            os.waitpid(process.pid, os.WNOHANG)


def _wait_until(condition: Callable[[], bool], *, deadline: float) -> None:
    while not condition() and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
