"""The base of this package's servers: each has a process, a log and a folder, and ends with its owner."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_provider.servers.own_process import tail, watch_over

if TYPE_CHECKING:
    from typing_extensions import Self

START_S: Final = 300.0
"""How long a start may take. A JVM needs seconds for it, and minutes on a machine that is busy with something else."""
_POLL_S: Final = 0.02


class NotStartedError(RuntimeError):
    """A server has not started; the message has the end of its log.

    :param late: it was still starting when its time was over
    """

    def __init__(self, message: str, *, late: bool = False) -> None:
        super().__init__(message)
        self.late = late


class OwnServer(ABC):
    """A server in a process of its own. It does not outlive this process, however this process ends.

    As a context manager, it is started and, at the end, closed.

    :param name: its name in messages, with an article
    :param folder: the folder of its log, and of everything else that it writes
    :param log: the name of the log file
    :param keeps_folder: whether the folder stays when the server is closed
    :param not_started: the error to raise if the server does not start
    """

    def __init__(
        self, name: str, folder: Path, log: str, *, keeps_folder: bool, not_started: type[NotStartedError]
    ) -> None:
        self.name = name
        self._folder = folder
        self._keeps_folder = keeps_folder
        self._not_started = not_started
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self.log_path = folder / log

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it serves clients."""

    @property
    def pid(self) -> int | None:
        """The server's process, or None while it is not running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def end(self) -> str:
        """How its process has ended, in words."""
        status = self._process.poll() if self._process else None
        if status is None:
            return "has ended"
        return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"has ended with status {status}"

    def log_tail(self) -> str:
        """The end of its log, which is removed with the folder."""
        return tail(self.log_path.read_text(errors="replace"))

    def stop(self) -> None:
        """End the server for now."""
        self.kill()

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL)."""
        if self._watchdog is not None:
            self._watchdog.kill()
            self._watchdog.communicate()
            self._watchdog = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """Stop the server for good and remove its folder, unless that is to be kept."""
        if os.getpid() != self._owner:
            return  # a forked child is ending: the server belongs to its parent
        atexit.unregister(self.close)
        try:
            self.stop()
        finally:  # also after a second Ctrl-C
            if not self._keeps_folder:
                shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_at_exit(self) -> None:
        atexit.register(self.close)

    def _run(
        self,
        command: Sequence[str],
        started: Callable[[str], bool],
        *,
        sign: str,
        limit_s: float,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Run the server until it has started.

        :param started: tells from what the server has logged since its start whether it has started
        :param sign: by what it tells that, in words
        :raises NotStartedError: the server's own, if it has ended or takes longer than ``limit_s`` seconds
        """
        before = self.log_path.stat().st_size if self.log_path.exists() else 0
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that a Ctrl-C in the terminal reaches only this process
            )
        self._watchdog = watch_over(self._process.pid)
        try:
            self._wait_until_started(self._process, started, sign, before, limit_s)
        except BaseException:
            self.kill()
            raise

    def _wait_until_started(
        self, process: subprocess.Popen[bytes], started: Callable[[str], bool], sign: str, log_from: int, limit_s: float
    ) -> None:
        deadline = time.monotonic() + limit_s
        while not started(log := self.log_path.read_bytes()[log_from:].decode(errors="replace")):
            status = process.poll()
            if status is not None:
                raise self._not_started(f"{self.name} ended with status {status} instead of starting:\n{tail(log)}")
            if time.monotonic() > deadline:
                raise self._not_started(
                    f"{self.name} has not started: waited {limit_s:g} s for {sign}. Its log ends with:\n{tail(log)}",
                    late=True,
                )
            time.sleep(_POLL_S)
