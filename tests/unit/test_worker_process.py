"""Whether a worker can see that the process that had its name before has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider.kafka.records import WorkerPhase, WorkerStatus
from airflow_provider.membership.events import Predecessor
from airflow_provider.membership.model import Epoch, WorkerId
from airflow_provider.worker import process as process_module
from airflow_provider.worker.process import has_ended, predecessor_of, this_process

_HOST, _PLACE, _PID, _START = this_process().split("/")
on_linux = pytest.mark.skipif(not _PLACE, reason="needs procfs")


def record(process: str, state: WorkerPhase = WorkerPhase.STABLE) -> WorkerStatus:
    return WorkerStatus(worker=WorkerId("w1"), state=state, epoch=Epoch(1), slots=1, process=process)


@pytest.fixture
def child() -> str:
    """A process that has just ended, as it described itself."""
    code = "from airflow_provider.worker.process import this_process; print(this_process())"
    told = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    assert told != this_process()
    return told


def test_this_process_has_not_ended() -> None:
    assert not has_ended(this_process())
    assert this_process() == this_process()
    assert str(os.getpid()) == _PID


@on_linux
def test_a_process_that_ended_has_ended(child: str) -> None:
    assert has_ended(child)
    assert predecessor_of(record(child)) is Predecessor.GONE


@on_linux
def test_another_process_with_the_same_number_is_another_process() -> None:
    assert has_ended(f"{_HOST}/{_PLACE}/{_PID}/1")


@on_linux
def test_of_another_place_with_the_same_host_name_nothing_can_be_seen() -> None:
    """Another machine, or a container on the network of its host, where the number is another process's."""
    boot, namespace = _PLACE.split("+")
    assert not has_ended(f"{_HOST}/another-boot+{namespace}/{_PID}/1")
    assert not has_ended(f"{_HOST}/{boot}+pid:[1]/{_PID}/1")
    assert has_ended(f"{_HOST}/{boot}+{namespace}/{_PID}/1")


@on_linux
def test_a_child_that_nobody_has_waited_for_yet_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        start = (f"/proc/{process.pid}/stat",)
        with open(start[0]) as stat:  # noqa: PTH123
            ticks = stat.read().rpartition(")")[2].split()[19]
        told = f"{_HOST}/{_PLACE}/{process.pid}/{ticks}"
        assert not has_ended(told)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(told), "a zombie runs nothing"


@on_linux
def test_what_procfs_hides_has_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: str) -> None:
    """As with ``hidepid=2``, where the processes of other users have no folder."""
    monkeypatch.setattr(process_module, "_PROC", tmp_path)
    assert not has_ended(f"{_HOST}/{_PLACE}/{_PID}/{_START}")
    assert has_ended(child), "that there is none the kernel says all the same"


@on_linux
def test_nor_has_another_users_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(process_module, "_PROC", tmp_path)
    monkeypatch.setattr(os, "kill", refuse)
    assert not has_ended(f"{_HOST}/{_PLACE}/1/1")


@pytest.mark.parametrize(
    "process",
    [
        "",
        "elsewhere/boot/1/1",
        f"{_HOST}//{_PID}/",
        f"{_HOST}/{_PLACE}/{_PID}/",
        f"{_HOST}/{_PLACE}/x/1",
        f"{_HOST}/{_PLACE}/²/1",
        f"{_HOST}/{_PLACE}/{'9' * 5_000}/1",
        "nonsense",
    ],
)
def test_what_cannot_be_seen_from_here_may_still_run(process: str) -> None:
    assert not has_ended(process)
    assert predecessor_of(record(process)) is Predecessor.UNKNOWN


@pytest.mark.parametrize("state", [WorkerPhase.LEFT, WorkerPhase.DEFERRED])
def test_who_left_or_was_held_by_a_triggerer_runs_nothing(state: WorkerPhase) -> None:
    assert predecessor_of(record("elsewhere/boot/1/1", state)) is Predecessor.GONE


def test_a_name_that_nobody_had_before_has_no_predecessor() -> None:
    assert predecessor_of(None) is Predecessor.GONE
