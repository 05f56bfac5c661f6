"""A program: it runs a command, and ends it when its owner is gone or the owner's lease is over.

The owner starts it as the leader of a session, and writes a line to its standard input again and again: until when the
command may run, in nanoseconds by :func:`clock_ns`, or ``inf``. All processes of a machine share that clock. The end of
the input is the end of the owner, also if that was killed. A keeper that is told nothing more ends the command in time,
so it also ends when Python stands still in the owner, or when a process that the owner has forked holds the pipe open.

The command runs in the keeper's process group. To end it, the keeper kills the group, and so itself; before that it
kills what has left the group for a session of its own. It finds that by the kernel's word: what has lost its parent
becomes a child of the keeper. It leaves a SIGTERM to the command. It needs nothing but the standard library, so that it
starts in no time.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

_LOOK_S = 0.2
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # it goes on while the host is suspended, as leases do
_PIPE_BYTES = 65_536
"""What a pipe holds: one call reads all that the owner has written, also if this process has stood still."""
_NOT_STARTED = 127
_SIGNALLED = 128
_PR_SET_CHILD_SUBREAPER = 36


def clock_ns() -> int:
    """The clock by which owners say until when."""
    return time.clock_gettime_ns(_CLOCK)


class _Owner:
    """What the owner has said."""

    def __init__(self) -> None:
        self.gone = False
        self.until: float | None = None
        self._rest = b""
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)

    def listen(self, timeout_s: float | None) -> None:
        """:param timeout_s: None: until it says something"""
        if not self._poll.poll(None if timeout_s is None else 1000 * timeout_s):
            return
        read = os.read(0, _PIPE_BYTES)
        self.gone = not read
        *lines, self._rest = (self._rest + read).split(b"\n")
        if lines:
            self.until = float(lines[-1])

    @property
    def is_over(self) -> bool:
        return self.gone or self.until is None or clock_ns() >= self.until


def _parents() -> dict[int, int]:
    """The parent of each process that is to be seen."""
    found = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123
            found[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
    return found


def _descendants(parents: dict[int, int]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    ahead = [os.getpid()]
    while ahead:
        further = [pid for pid in children.get(ahead.pop(), ()) if pid not in found]
        found.update(further)
        ahead += further
    return found


def _end_descendants() -> None:
    """Until this process has no child, which is the kernel's word. Numbers of processes are used again only after all
    others.
    """
    while True:
        for pid in _descendants(_parents()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _exit_code(command: int) -> int | None:
    """Of the command; None: it runs. Takes leave of all other children that have ended, too."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == command:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _main(command: list[str]) -> int:
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, lambda *_: None)  # not SIG_IGN, which the command would inherit
    owner = _Owner()
    while owner.until is None and not owner.gone:
        owner.listen(None)
    if owner.is_over:
        return 0
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603
    except OSError as failed:
        print(f"{command[0]} can't be started: {failed.strerror}", file=sys.stderr)
        return _NOT_STARTED
    while (code := _exit_code(child.pid)) is None:
        owner.listen(_LOOK_S)
        if owner.is_over:
            _end_descendants()
            os.killpg(0, signal.SIGKILL)
    _end_descendants()
    return code if code >= 0 else _SIGNALLED - code


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
