"""A command that ends with its owner, with the owner's lease, or when it is told to."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_provider.spark.submit import watchdog

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

GRACE_S: Final = 5.0
"""How long a command that is told to end may take, before it is killed. Others may be waiting for it."""
_MARGIN_S: Final = 0.5
"""So long before the end of the lease it is killed in any case."""
_END_S: Final = 2.0
"""How long the keeper may take to kill all that descends from it, before it is killed with its group."""
_LOOK_S: Final = 0.2
_READ_BYTES: Final = 65_536
_LONGEST_LINE: Final = 16 * 1024
_MOST_LEFT: Final = 16
"""So often the pipe is read when all has ended: what has left the group may go on printing."""


def run_kept(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    hear: Callable[[str], None],
    check: Callable[[], None],
    lease_left_s: Callable[[], float],
) -> int:
    """Run a command to its end.

    :param folder: its working directory
    :param hear: called with each line that it prints
    :param check: called again and again; what it raises ends the command, and is raised
    :param lease_left_s: for how many seconds the command may run, as far as is known now
    :return: its exit code; after a signal, 128 and the signal's number, as a shell has it
    """
    with KeptProcess(command, environment, folder, hear, lease_left_s) as kept:
        while (code := kept.exit_code()) is None:
            check()
            kept.renew()
            kept.listen(_LOOK_S)
        return code


class KeptProcess:
    """A command behind a :mod:`~airflow_provider.spark.submit.watchdog`. At the end of its context it has ended."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        hear: Callable[[str], None],
        lease_left_s: Callable[[], float],
    ) -> None:
        self._hear = hear
        self._lease_left_s = lease_left_s
        self._line = b""
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", watchdog.__file__, *command],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        self._prints = select.poll()
        self._prints.register(self._stdout, select.POLLIN)
        self._silent = False

    def exit_code(self) -> int | None:
        """None: it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def renew(self) -> None:
        """Say until when it may run."""
        now = watchdog.clock_ns()  # first: the lease may be extended later, but does not end earlier
        left_s = max(0.0, self._lease_left_s() - _MARGIN_S)
        self._tell("inf" if left_s == math.inf else str(now + int(left_s * 1e9)))

    def _tell(self, until: str) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._stdin.fileno(), f"{until}\n".encode())

    def listen(self, timeout_s: float) -> None:
        """Hear some of what it has printed, or wait for that for a while."""
        if self._silent:
            time.sleep(timeout_s)
        elif self._prints.poll(1000 * timeout_s):
            read = os.read(self._stdout.fileno(), _READ_BYTES)
            self._silent = not read
            self._take(read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.exit_code() is None:
                self._ask_to_end()
        finally:
            self._kill_all()
            for _ in range(_MOST_LEFT):
                self.listen(0.0)
            with contextlib.suppress(BrokenPipeError):
                self._stdin.close()
            self._stdout.close()

    def _ask_to_end(self) -> None:
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while self.exit_code() is None and time.monotonic() < deadline and self._lease_left_s() > _MARGIN_S:
            self.renew()
            self.listen(_LOOK_S)

    def _kill_all(self) -> None:
        """Also what the command has left running. The number of a group that has just ended is not used again soon."""
        self._tell("0")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(min(_END_S, max(0.0, self._lease_left_s())))
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _take(self, read: bytes) -> None:
        *lines, self._line = (self._line + read).split(b"\n")
        if len(self._line) > _LONGEST_LINE or not read:
            lines, self._line = [*lines, self._line], b""
        for line in lines:
            if line:
                self._hear(line[:_LONGEST_LINE].decode(errors="replace").rstrip("\r"))
