"""A command ends with its owner, with the owner's lease, and when it is told to; with programs of the shell."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import SLOWNESS, wait_until

from airflow_provider.spark.submit import watched_command
from airflow_provider.spark.submit.watchdog import clock_ns
from airflow_provider.spark.submit.watched_command import KeptProcess, run_kept
from airflow_provider.values.procfs import is_over, start_of

SLEEPS = "echo $$ > pid; exec sleep 3600"
GOES_AWAY = f"(setsid env -i /bin/sh -c '{SLEEPS}' &); until [ -s pid ]; do sleep 0.05; done"
"""It has a session of its own, no parent that waits for it, and nothing in its environment."""


class ToldToStop(Exception):  # noqa: N818 - as a fence has it, it is no error
    pass


class Owner:
    """An owner, in a folder, that hears what its command prints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.heard: list[str] = []
        self.lease_left_s = math.inf

    def run(self, program: str, check: Callable[[], None] = lambda: None) -> int:
        return run_kept(
            ["/bin/sh", "-c", program],
            environment={"PATH": os.environ["PATH"]},
            folder=self.folder,
            hear=self.heard.append,
            check=check,
            lease_left_s=lambda: self.lease_left_s,
        )

    def start(self, program: str) -> KeptProcess:
        command = ["/bin/sh", "-c", program]
        return KeptProcess(command, {**os.environ}, self.folder, self.heard.append, lambda: self.lease_left_s)

    def process(self, name: str = "pid") -> tuple[int, str]:
        """A process that has written its number into a file."""
        file = self.folder / name
        written = wait_until(lambda: file.read_text().strip() if file.exists() else None)
        return int(written), start_of(int(written)) or ""

    def stops_when_it_runs(self) -> None:
        if (self.folder / "pid").exists():
            self.process()
            raise ToldToStop


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


def test_what_it_prints_is_heard_line_by_line_and_its_exit_code_is_told(owner: Owner) -> None:
    assert owner.run("echo one; echo two >&2; printf 'gr\\303\\266\\303\\237e \\377'; exit 3") == 3
    assert owner.heard == ["one", "two", "größe \ufffd"]


@pytest.mark.parametrize(("program", "code"), [("exit 0", 0), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_an_end_by_a_signal_has_the_code_that_a_shell_gives_it(owner: Owner, program: str, code: int) -> None:
    assert owner.run(program) == code


def test_a_command_that_can_not_be_started_says_so(owner: Owner) -> None:
    nothing: list[str] = [str(owner.folder / "nothing")]
    with KeptProcess(nothing, {}, owner.folder, owner.heard.append, lambda: math.inf) as process:
        process.renew()
        assert wait_until(process.exit_code) == 127
    assert owner.heard == [f"{nothing[0]} can't be started: No such file or directory"]


def test_when_it_is_told_to_stop_it_may_end_in_order(owner: Owner) -> None:
    program = "trap 'echo bye; exit 0' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    with pytest.raises(ToldToStop):
        owner.run(program, owner.stops_when_it_runs)
    assert "bye" in owner.heard


def test_and_otherwise_it_is_killed(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_command, "GRACE_S", 0.3)
    program = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    seen: list[tuple[int, str]] = []

    def check() -> None:
        if (owner.folder / "pid").exists():
            seen.append(owner.process())
            raise ToldToStop

    with pytest.raises(ToldToStop):
        owner.run(program, check)
    wait_until(lambda: is_over(*seen[0]), "it is over")


def test_without_a_lease_it_gets_no_time_to_end(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_command, "GRACE_S", math.inf)

    def check() -> None:
        if (owner.folder / "pid").exists():
            owner.lease_left_s = 0.0
            raise ToldToStop

    with pytest.raises(ToldToStop):
        owner.run("trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done", check)


def test_what_it_has_left_running_ends_with_it(owner: Owner) -> None:
    assert owner.run("sleep 3600 & echo $! > pid") == 0
    wait_until(lambda: is_over(*owner.process()))


def test_so_does_what_has_gone_into_a_session_of_its_own(owner: Owner) -> None:
    assert owner.run(f"{GOES_AWAY}; exit 3") == 3
    assert is_over(*owner.process())


def test_and_when_it_is_told_to_stop(owner: Owner) -> None:
    seen: list[tuple[int, str]] = []

    def check() -> None:
        if (owner.folder / "pid").exists():
            seen.append(owner.process())
            raise ToldToStop

    with pytest.raises(ToldToStop):
        owner.run(f"{GOES_AWAY}; exec sleep 3600", check)
    assert is_over(*seen[0])


def test_what_has_lost_its_parent_leaves_no_zombie_while_the_command_runs(owner: Owner) -> None:
    ends = "(sh -c 'echo $$ > gone' &); echo $$ > pid; exec sleep 3600"
    with owner.start(ends) as process:
        process.renew()
        gone, _ = owner.process("gone")
        wait_until(lambda: start_of(gone) is None)


def test_it_ends_when_its_owner_stands_still_for_longer_than_the_lease(owner: Owner) -> None:
    with owner.start(SLEEPS) as process:
        process.renew()
        pid, start = owner.process()
        owner.lease_left_s = 1.0
        process.renew()
        owner.lease_left_s = math.inf  # but the owner does not say so
        assert wait_until(process.exit_code) == 137
        wait_until(lambda: is_over(pid, start), "it is over")


@pytest.mark.slow
def test_it_goes_on_if_the_lease_is_extended(owner: Owner) -> None:
    owner.lease_left_s = 3 * SLOWNESS
    with owner.start(SLEEPS) as process:
        process.renew()
        first_end = clock_ns() + 3e9 * SLOWNESS
        owner.process()
        owner.lease_left_s = math.inf
        process.renew()
        wait_until(lambda: clock_ns() > first_end + 1e9)
        assert process.exit_code() is None


def test_it_does_not_start_when_the_lease_is_over(owner: Owner) -> None:
    owner.lease_left_s = -1.0
    with owner.start("echo started") as process:
        process.renew()
        assert wait_until(lambda: process.exit_code() is not None)
    assert owner.heard == []


def test_one_that_prints_without_end_is_told_to_stop_all_the_same(owner: Owner) -> None:
    def check() -> None:
        if len(owner.heard) > 1_000:
            raise ToldToStop

    with pytest.raises(ToldToStop):
        owner.run("yes", check)
    assert set(owner.heard[:1_000]) == {"y"}


def test_a_line_without_end_is_cut(owner: Owner) -> None:
    assert owner.run("head -c 100000 /dev/zero | tr '\\0' x") == 0
    assert all(len(line) <= 16 * 1024 for line in owner.heard)


OWNER = """
import math
import sys
from pathlib import Path
from airflow_provider.spark.submit.watched_command import run_kept
run_kept(
    ["/bin/sh", "-c", sys.argv[1]],
    environment={"PATH": "/usr/bin:/bin"},
    folder=Path.cwd(),
    hear=print,
    check=lambda: None,
    lease_left_s=lambda: math.inf,
)
"""


@pytest.mark.parametrize("program", [SLEEPS, f"{GOES_AWAY}; exec sleep 3600"])
def test_it_ends_with_its_owner_even_if_that_is_killed(owner: Owner, program: str) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, program], cwd=owner.folder) as process:
        pid, start = owner.process()
        assert not is_over(pid, start)
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: is_over(pid, start))
