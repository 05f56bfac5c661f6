"""Whether a worker can see that the process that had its name before has ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from waiting import DEADLINE_S, wait_until

from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.spark.local.driver_jvm import jvm
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.values import procfs
from airflow_provider.values.model import Epoch, WorkerId
from airflow_provider.worker.process_identity import (
    end_what_outlived,
    has_ended,
    predecessor_of,
    tell_of_rival,
    this_process,
)

_HOST, _PLACE, _PID, _START = this_process().split("/")
on_linux = pytest.mark.skipif(not _PLACE, reason="needs procfs")


def record(process: str, state: WorkerPhase = WorkerPhase.STABLE) -> WorkerStatus:
    return WorkerStatus(worker=WorkerId("w1"), state=state, epoch=Epoch(1), slots=1, process=process)


@pytest.fixture
def child() -> str:
    """A process that has just ended, as it described itself."""
    code = "from airflow_provider.worker.process_identity import this_process; print(this_process())"
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
    monkeypatch.setattr(procfs, "_PROC", tmp_path)
    assert not has_ended(f"{_HOST}/{_PLACE}/{_PID}/{_START}")
    assert has_ended(child), "that there is none the kernel says all the same"


@on_linux
def test_nor_has_another_users_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(procfs, "_PROC", tmp_path)
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


# ---- the JVM


@pytest.fixture
def orphan() -> Iterator[subprocess.Popen[bytes]]:
    """What stands for the JVM of a worker that has ended."""
    yield from _standing_for_a_jvm(f"{os.getpid()}/1")


@pytest.fixture
def jvm_in_use() -> Iterator[subprocess.Popen[bytes]]:
    """What stands for the JVM of a worker that runs."""
    yield from _standing_for_a_jvm(f"{os.getpid()}/{procfs.start_of(os.getpid())}")


def _standing_for_a_jvm(owner: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={**os.environ, jvm.OWNER: owner}) as process:
        # The kernel shows it a moment after the start.
        wait_until(lambda: procfs.variable_of(process.pid, jvm.OWNER) == owner)
        yield process
        process.kill()


def told_of(process: subprocess.Popen[bytes]) -> str:
    """How a worker that has ended has described itself, when it had that JVM."""
    return f"{_HOST}/{_PLACE}/{_PID}/1/{process.pid}/{procfs.start_of(process.pid)}"


@on_linux
def test_a_process_names_its_jvm_as_long_as_that_runs(
    jvm_in_use: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = this_process()
    monkeypatch.setattr(jvm, "_present", jvm_in_use)
    assert this_process() == f"{alone}/{jvm_in_use.pid}/{procfs.start_of(jvm_in_use.pid)}"
    assert not has_ended(this_process())
    jvm_in_use.kill()
    jvm_in_use.wait()
    assert this_process() == alone


@on_linux
def test_who_has_ended_may_still_run_tasks_while_its_jvm_lives(orphan: subprocess.Popen[bytes]) -> None:
    told = told_of(orphan)
    assert predecessor_of(record(told)) is Predecessor.UNKNOWN
    orphan.kill()
    orphan.wait()
    assert predecessor_of(record(told)) is Predecessor.GONE


@on_linux
def test_a_jvm_that_outlived_its_worker_is_ended_by_the_next_one(
    orphan: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    end_what_outlived(record(told_of(orphan)))
    assert orphan.wait(DEADLINE_S) == -signal.SIGKILL
    assert "it had outlived process" in caplog.text
    end_what_outlived(record(told_of(orphan)))
    end_what_outlived(record(""))
    end_what_outlived(None)


@on_linux
def test_no_record_ends_what_is_somebody_elses(jvm_in_use: subprocess.Popen[bytes]) -> None:
    """Who may write to the status topic could name any process there."""
    start = procfs.start_of(jvm_in_use.pid)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as no_jvm:
        for process in (
            told_of(jvm_in_use),
            told_of(no_jvm),
            f"{_HOST}/{_PLACE}/{_PID}/1/{jvm_in_use.pid}/{start}9",
            f"{_HOST}/{_PLACE}/{_PID}/{_START}/{jvm_in_use.pid}/{start}",
        ):
            end_what_outlived(record(process))
        assert jvm_in_use.poll() is None
        assert no_jvm.poll() is None
        no_jvm.kill()


@on_linux
def test_who_takes_over_the_name_of_a_process_that_lives_says_so(
    jvm_in_use: subprocess.Popen[bytes], child: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    living = f"{_HOST}/{_PLACE}/{jvm_in_use.pid}/{procfs.start_of(jvm_in_use.pid)}"
    tell_of_rival(record(living))
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert f"worker w1: process {jvm_in_use.pid} on this host has that name, and is alive" in line.getMessage()
    caplog.clear()
    for quiet in (None, record(child), record(this_process()), record(living, WorkerPhase.LEFT)):
        tell_of_rival(quiet)
    assert not caplog.records, "it is nobody, has ended, or has left"
    tell_of_rival(record("elsewhere/boot+pid:[1]/7/8"))
    (line,) = caplog.records
    assert (line.levelname, "a process on elsewhere had that name" in line.getMessage()) == ("INFO", True)


@pytest.mark.slow
def test_what_a_job_forks_does_not_keep_the_jvm_alive() -> None:
    script = textwrap.dedent("""
        import os, subprocess, time
        from airflow_provider.spark.local.driver_jvm.jvm import jvm_started
        jvm = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        jvm_started(jvm)
        if os.fork():
            print(jvm.pid, flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as worker:
        try:
            assert worker.stdout is not None
            started = psutil.Process(int(worker.stdout.readline()))
            worker.kill()
            assert psutil.wait_procs([started], timeout=DEADLINE_S)[1] == []
        finally:
            os.killpg(worker.pid, signal.SIGKILL)
