"""The Airflow of the demo and the system tests leaves no process behind, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import psutil
import pytest
from postgresql import needs_postgresql
from waiting import DEADLINE_S, wait_until

from demo.airflow import LocalAirflow
from demo.processes import KeptProcess, ProcessFailedError

OWNER = """
import sys, time
from pathlib import Path
from demo.airflow import LocalAirflow

airflow = LocalAirflow(Path(sys.argv[1]), dag_folders=[])
airflow.start()
print(*(process.pid for component in airflow.processes.values() for process in component.tree()), flush=True)
time.sleep(600)
"""


OWNER_OF_ONE = """
import os, sys, time
from pathlib import Path
from demo.processes import KeptProcess

folder = Path(sys.argv[1])
FORKS = "import os, time; os.fork() or os.setsid(); time.sleep(600)"
process = KeptProcess(
    "program", [sys.executable, "-c", FORKS], env=os.environ, folder=folder, log_file=folder / "program.log"
)
while len(process.tree()) < 2:
    time.sleep(0.05)
print(*(each.pid for each in process.tree()), flush=True)
time.sleep(600)
"""


OWNER_OF_POSTGRES = """
import sys, time
from pathlib import Path
from demo.postgres import LocalPostgres

with LocalPostgres(Path(sys.argv[1]) / "log") as server:
    print(*(each.pid for each in server.processes), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("program", "least"),
    [
        pytest.param(OWNER_OF_ONE, 2, id="one command"),
        pytest.param(OWNER, 13, id="Airflow, its components and the executor's processes", marks=pytest.mark.thorough),
    ],
)
def test_all_processes_end_with_the_one_that_started_them(tmp_path: Path, program: str, least: int) -> None:
    check_that_all_end(tmp_path, program, least)


@needs_postgresql
@pytest.mark.thorough
def test_postgresql_ends_with_the_one_that_started_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as left_behind:
        Path(left_behind).chmod(0o711)  # the server's user may be another one
        monkeypatch.setenv("TMPDIR", left_behind)
        check_that_all_end(tmp_path, OWNER_OF_POSTGRES, 4)


def check_that_all_end(folder: Path, program: str, least: int) -> None:
    """The starter is killed and can clean up nothing."""
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) >= least
        owner.kill()
        owner.wait(timeout=DEADLINE_S)
        wait_until(
            lambda: not any(psutil.pid_exists(pid) for pid in pids),
            what=lambda: f"left behind: {[pid for pid in pids if psutil.pid_exists(pid)]}",
        )


@pytest.mark.thorough
def test_a_component_that_ends_too_early_is_reported_with_its_log(tmp_path: Path) -> None:
    broken = LocalAirflow(tmp_path, dag_folders=[], env={"AIRFLOW__CORE__EXECUTOR": "NoSuchExecutor"})
    with pytest.raises(ProcessFailedError, match="NoSuchExecutor"):
        broken.start()
    assert not broken.processes
    assert not [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(tmp_path)], (
        "all ended"
    )


def kept(tmp_path: Path, program: str) -> KeptProcess:
    return KeptProcess(
        "program",
        [sys.executable, "-c", textwrap.dedent(program)],
        env=os.environ,
        folder=tmp_path,
        log_file=tmp_path / "program.log",
    )


def test_a_stopped_process_may_clean_up_and_a_killed_one_may_not(tmp_path: Path) -> None:
    program = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("cleaned up", flush=True), sys.exit()))
        print("ready", flush=True)
        time.sleep(600)
    """
    for end, cleaned in ((lambda process: process.stop(grace_s=10), True), (KeptProcess.kill, False)):
        process = kept(tmp_path, program)
        wait_until(lambda: "ready" in process.log_tail(), what=process.log_tail)  # noqa: B023
        end(process)
        assert not process.alive
        assert ("cleaned up" in process.log_tail()) is cleaned
        process.log_file.unlink()


def test_a_process_that_left_its_parent_and_its_session_is_found(tmp_path: Path) -> None:
    process = kept(
        tmp_path,
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                print(os.getpid(), flush=True)
                time.sleep(600)
            os._exit(0)
        time.sleep(600)
        """,
    )
    wait_until(lambda: process.log_file.read_text().strip(), what=process.log_tail)
    daemon = int(process.log_file.read_text())
    assert psutil.pid_exists(daemon)
    process.kill()
    wait_until(lambda: not psutil.pid_exists(daemon), what=lambda: "the daemon runs on")
