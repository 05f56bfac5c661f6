"""Processes that never outlive the one that started them, each with a name and a log file."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from demo import keeper

_KEEPER: Final = keeper.__file__
_LOG_TAIL_BYTES: Final = 16_384


class ProcessFailedError(Exception):
    """A process could not be started, ended too early, or was not ready in time; the message has the end of its log."""


class KeptProcess:
    """A running command, with a keeper (:mod:`.keeper`) that ends it when this process closes it or dies.

    :param name: the process's name in messages
    :param command: the command and its arguments
    :param env: the whole environment of the command
    :param folder: where the command runs
    :param log_file: the output is appended to this file
    """

    def __init__(
        self, name: str, command: Sequence[str], *, env: Mapping[str, str], folder: Path, log_file: Path
    ) -> None:
        self.name = name
        self.log_file = log_file
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", _KEEPER, str(log_file.absolute()), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict(env),
            cwd=folder,
            start_new_session=True,
        )
        assert self._keeper.stdout is not None
        first_line = self._keeper.stdout.readline()
        if not first_line:
            raise ProcessFailedError(f"{name} could not be started: {' '.join(command)}")
        self.pid = int(first_line)
        """The process id of the command itself (not of its keeper)."""

    @property
    def alive(self) -> bool:
        return self._keeper.poll() is None

    def tree(self) -> list[psutil.Process]:
        """The command and all its descendants, including orphans; empty when it has ended."""
        try:
            descendants: list[psutil.Process] = psutil.Process(self._keeper.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return descendants

    def pause(self) -> None:
        """Send SIGSTOP to the command and all its descendants, as if their machine stalled."""
        for process in self.tree():
            process.suspend()

    def resume(self) -> None:
        """Send SIGCONT to all that :meth:`pause` has stopped."""
        for process in self.tree():
            process.resume()

    def stop(self, *, grace_s: float = 10.0) -> None:
        """Send SIGTERM to the command and, ``grace_s`` seconds later, SIGKILL to what is left. Waits for the end."""
        self._tell_keeper(grace_s)

    def kill(self) -> None:
        """Send SIGKILL to the command and all its descendants together, as if their machine was lost."""
        self._tell_keeper(0.0)

    def wait(self, timeout_s: float) -> int:
        """Wait for the command to end by itself, and return its exit status.

        :raises ProcessFailedError: if it still runs after ``timeout_s`` seconds; it is killed then
        """
        try:
            status = self._keeper.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ProcessFailedError(f"{self.name} runs on after {timeout_s:g} s\n{self.log_tail()}") from error
        self._close()
        return status

    def log_tail(self, lines: int = 30) -> str:
        """The end of the log, under its path."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError as error:
            return f"--- {self.log_file}: {error}"
        return "\n".join([f"--- end of {self.log_file}", *text.splitlines()[-lines:]])

    def _tell_keeper(self, grace_s: float) -> None:
        assert self._keeper.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._keeper.stdin.write(f"{grace_s}\n".encode())
            self._keeper.stdin.flush()
        self._keeper.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def __repr__(self) -> str:
        return f"<{self.name} pid {self.pid} {'alive' if self.alive else 'ended'}>"
