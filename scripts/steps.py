"""Steps that are run as processes, several at a time: each line of output begins with its step.

A step may take as long as it likes, but not be silent for ever: then it is interrupted, so that it says where it was,
and killed if that does not end it. What failed is told with the reason, as pytest gives it, or else with the last that
it said.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

LAST_WORDS_S = 30.0
_ENDING = (signal.SIGINT, signal.SIGTERM)
_CHUNK = 65_536
REASON_LINES = 16
"""Of all that failed together."""
REASON_WIDTH = 200
NICE = 4
"""Of what computes beside steps that mostly wait: half their share, for in the end nobody should wait for it alone."""


@dataclass(frozen=True)
class Step:
    """What is run as one process.

    :param cores: how many it keeps busy
    :param shows: what it shows that no other one does
    :param nice: how much it gives way to the others, as of ``nice``
    :param ends: what it says in the end, as a regular expression: without that, a status of 0 is no success
    """

    name: str
    cores: float
    command: Sequence[str] = field(repr=False)
    shows: str = ""
    nice: int = 0
    ends: str = ""


@dataclass(frozen=True)
class Failure:
    """A test that failed.

    :param name: with the reason in short, as pytest sums it up
    :param errors: as pytest shows them, line by line
    """

    name: str
    errors: Sequence[str]

    def lines(self, most: int) -> Sequence[str]:
        """The name, and so many lines more at most."""
        return self.name, *_indented(self.errors[:most])


@dataclass(frozen=True)
class LastWords:
    """Of a step that failed without a test that did."""

    words: Sequence[str]
    name = "no test"

    def lines(self, most: int) -> Sequence[str]:
        return "its last words:", *_indented(self.words[-most:])


def _indented(lines: Sequence[str]) -> Iterator[str]:
    return (f"    {line[:REASON_WIDTH]}" for line in lines)


class Words:
    """What of a step's output says why it failed: pytest's errors, a test at a time, or else the last that it said."""

    _TEST = re.compile(r"_+ (?:ERROR (?:at \w+ of|collecting) )?(\S.*?) _+$")
    _ERROR = re.compile(r"E  |[ |]*\| (?:\w+\.)*\w+(?:Error|Warning|Exception|Group|Timeout|Failed)\b")

    def __init__(self) -> None:
        self._failed: list[Failure] = []
        self._errors: list[tuple[str, list[str]]] = []
        self._last: deque[str] = deque(maxlen=REASON_LINES)

    def hear(self, line: str) -> None:
        if line:
            self._last.append(line)
        if test := self._TEST.match(line):
            self._errors.append((test[1], []))
        elif self._errors and self._ERROR.match(line):
            self._errors[-1][1].append(line)
        elif line.startswith(("FAILED ", "ERROR ")):
            self._failed.append(Failure(line, self._reasons(line)))

    def have(self, pattern: str) -> bool:
        """Whether one of the last lines has this; of nothing that is true."""
        return not pattern or any(re.search(pattern, line) for line in self._last)

    def failures(self) -> Sequence[Failure | LastWords]:
        return self._failed or [LastWords([*self._last])]

    def _reasons(self, line: str) -> Sequence[str]:
        """Pytest names a test's file only where it sums up; it has said why in the same order, without the file."""
        path, _, name = line.split(" ", 1)[1].partition("::")
        summed_up = (name or path).replace("::", ".")
        for place, (test, errors) in enumerate(self._errors):
            if f"{summed_up} - ".startswith(f"{test} - "):
                del self._errors[place]
                return errors
        return ()


@dataclass(frozen=True)
class Result:
    """What came of a step.

    :param hung: whether it was ended because it said nothing any more
    :param ended: whether it has said what it says in the end
    :param cpu_s: seconds of a core, its own and of processes that it has waited for
    :param failures: what of it failed
    """

    step: Step
    status: int
    hung: bool
    took_s: float
    cpu_s: float
    ended: bool = True
    failures: Sequence[Failure | LastWords] = ()

    @property
    def passed(self) -> bool:
        return self.status == 0 and self.ended and not self.hung

    def __str__(self) -> str:
        ended = "" if self.ended else " before its end"
        how = "HUNG" if self.hung else "passed" if self.passed else f"FAILED (exit {self.status}{ended})"
        return f"{self.step.name:24}{self.took_s:6.0f} s {self.cpu_s:6.0f} s of a core  {how:8} {self.step.shows}"


class Running:
    """A step that has begun."""

    def __init__(self, step: Step, silent_s: float) -> None:
        self.step = step
        self._silent_s = silent_s
        self._began = self._heard = time.monotonic()
        self._interrupted_s: float | None = None
        self._words = Words()
        self._process = subprocess.Popen(  # noqa: S603
            ("nice", "-n", str(step.nice), *step.command),  # noqa: S607
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        with suppress(OSError):
            # Linux may share cores out by sessions, and then heeds the nice value of a session instead.
            Path(f"/proc/{self._process.pid}/autogroup").write_text(str(step.nice))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        begun = b""
        with self._process.stdout as output:
            while data := os.read(output.fileno(), _CHUNK):
                self._heard = time.monotonic()
                *lines, begun = (begun + data).split(b"\n")
                for line in lines:
                    self._tell(line)
        if begun:
            self._tell(begun)

    def _tell(self, line: bytes) -> None:
        words = line.decode(errors="replace").rstrip()
        print(f"[{self.step.name}] {words}", flush=True)
        self._words.hear(words)

    @property
    def _took_s(self) -> float:
        return time.monotonic() - self._began

    def look(self) -> Result | None:
        """What came of it; None while it runs on. One that hangs is made to end."""
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid:
            self._process.returncode = os.waitstatus_to_exitcode(status)
            self._reader.join(1)  # for ever, if a process that it has left behind holds the pipe
            cpu_s = usage.ru_utime + usage.ru_stime
            hung = self._interrupted_s is not None
            ended = self._words.have(self.step.ends)
            failures = self._words.failures() if hung or self._process.returncode or not ended else ()
            return Result(self.step, self._process.returncode, hung, self._took_s, cpu_s, ended, failures)
        if self._interrupted_s is None and time.monotonic() - self._heard > self._silent_s:
            print(f"[{self.step.name}] has said nothing for {self._silent_s:.0f} s", flush=True)
            self.interrupt()
        elif self._interrupted_s is not None and self._took_s > self._interrupted_s + LAST_WORDS_S:
            self._send(signal.SIGKILL)
        return None

    def interrupt(self) -> None:
        """As Ctrl-C would: pytest ends its fixtures then, and says where it was."""
        self._interrupted_s = self._took_s
        self._send(signal.SIGINT)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def run(steps: Sequence[Step], *, cores: float, silent_s: float) -> list[Result]:
    """Run steps, each as soon as there is room for it; the first that fits first.

    :param silent_s: which hangs: it has said nothing for so long
    :raises KeyboardInterrupt: after a signal, when all have ended
    """
    waiting, running, results = list(steps), list[Running](), list[Result]()
    with _signals() as signalled:
        try:
            while (waiting or running) and not signalled:
                free = cores - sum(each.step.cores for each in running)
                if step := next((step for step in waiting if step.cores <= free + 1e-9 or not running), None):
                    waiting.remove(step)
                    print(f"[{step.name}] begins", flush=True)
                    running.append(Running(step, silent_s))
                    continue
                time.sleep(0.1)
                for each in list(running):
                    if result := each.look():
                        running.remove(each)
                        results.append(result)
                        print(result, flush=True)
        finally:
            for each in running:
                each.interrupt()
            while running:
                time.sleep(0.1)
                running = [each for each in running if each.look() is None]
    if signalled:
        raise KeyboardInterrupt
    return results


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Those that come while the block runs, which they do not interrupt: often there are two, for who signals a process
    also signals its group. Even what a shell has started in the background hears them, and so do its steps.
    """
    signalled: list[int] = []
    before = {number: signal.signal(number, lambda number, _: signalled.append(number)) for number in _ENDING}
    try:
        yield signalled
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def summary(results: Sequence[Result]) -> Iterator[str]:
    """How long each step took, and then all that failed, so that a page of it says why."""
    yield from map(str, results)
    failures = [(result.step.name, failure) for result in results for failure in result.failures]
    for name, failure in failures:
        yield from (f"[{name}] {line}" for line in failure.lines(max(2, REASON_LINES // len(failures))))


def verdict(failed: Sequence[Result]) -> str:
    """What failed, in a line: all that some people get to see."""
    return "Failed: " + "; ".join(
        f"{result.step.name} ({', '.join(failure.name[:REASON_WIDTH] for failure in result.failures)})"
        for result in failed
    )
