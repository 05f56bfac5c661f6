"""The Airflow that demo and system tests run in: does it work, does it keep to itself, does it leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from demo.airflow import LocalAirflow
from demo.airflow_api import AirflowApiError, wait_until
from demo.processes import KeptProcess, ProcessFailedError

DAG_FILE = """
from __future__ import annotations

from airflow.sdk import DAG, BaseHook, task

with DAG("plain"):

    @task
    def answer():
        print("the host is", BaseHook.get_connection("some_broker").host)
        return 42

    answer()
"""

OTHER_DAG_FILE = """
import time
from datetime import timedelta

from airflow.providers.standard.sensors.time_delta import TimeDeltaSensor
from airflow.sdk import DAG, task

with DAG("waits"):
    TimeDeltaSensor(task_id="until", delta=timedelta(seconds=WAIT_S), deferrable=True)

with DAG("sleeps", default_args={"retries": 1, "retry_delay": timedelta(0)}):

    @task
    def sleep(ti=None):
        if ti.try_number == 1:
            time.sleep(600)

    sleep()
"""
WAIT_S = 25


@pytest.fixture(scope="module")
def airflow(start_airflow: Callable[..., LocalAirflow], tmp_path_factory: pytest.TempPathFactory) -> LocalAirflow:
    folders = [tmp_path_factory.mktemp(name) / "dags" for name in ("one", "other")]
    for folder, text in zip(folders, (DAG_FILE, OTHER_DAG_FILE.replace("WAIT_S", str(WAIT_S))), strict=True):
        folder.mkdir()
        (folder / "dags.py").write_text(text)
    return start_airflow(
        folders,
        connections={"some_broker": "kafka://broker.example:9092"},
        env={"AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "6"},
    )


def everything(airflow: LocalAirflow) -> list[psutil.Process]:
    return [process for component in airflow.processes.values() for process in component.tree()]


def test_a_task_runs_and_its_log_and_value_can_be_read(airflow: LocalAirflow) -> None:
    airflow.api.wait_for_dag("plain")
    run_id = airflow.api.trigger("plain")
    airflow.api.wait_for_run("plain", run_id)
    instance = airflow.api.task_instance("plain", run_id, "answer")
    assert instance.state == "success"
    assert airflow.api.xcom(instance) == 42
    assert "the host is broker.example" in airflow.api.log(instance)


def test_another_triggerer_resumes_what_a_killed_one_was_running(airflow: LocalAirflow) -> None:
    api = airflow.api
    api.wait_for_dag("waits")
    run_id = api.trigger("waits")
    waiting = api.wait_for_task("waits", run_id, "until", states=("deferred",))
    start = f"trigger waits/{run_id}/until/-1/1 "
    wait_until(lambda: start in api.log(waiting), timeout_s=30, what=lambda: api.log(waiting))
    name = airflow.kill_triggerer()
    assert name not in airflow.processes
    airflow.start_triggerer()
    api.wait_for_run("waits", run_id)
    log = api.log(waiting)
    assert log.count(start) == 2, log


def test_a_killed_task_process_is_noticed_and_tried_again(airflow: LocalAirflow) -> None:
    api = airflow.api
    api.wait_for_dag("sleeps")
    run_id = api.trigger("sleeps")
    first = api.wait_for_task("sleeps", run_id, "sleep", states=("running",))
    pid = api.running_pid(first)
    assert pid in {process.pid for process in everything(airflow)}
    os.kill(pid, 9)
    api.wait_for_run("sleeps", run_id)
    assert api.task_instance("sleeps", run_id, "sleep").try_number == 2


def test_a_task_that_a_user_marks_failed_ends(airflow: LocalAirflow) -> None:
    api = airflow.api
    api.wait_for_dag("sleeps")
    run_id = api.trigger("sleeps")
    instance = api.wait_for_task("sleeps", run_id, "sleep", states=("running",))
    process = psutil.Process(api.running_pid(instance))
    api.set_state(instance, "failed")
    api.wait_for_run("sleeps", run_id, states=("failed",))
    process.wait(timeout=30)


def test_what_does_not_come_is_said_with_what_is_there(airflow: LocalAirflow) -> None:
    with pytest.raises(AirflowApiError, match="no file has a DAG unheard_of"):
        airflow.api.wait_for_dag("unheard_of", timeout_s=0.1)
    airflow.api.wait_for_dag("plain")
    run_id = airflow.api.trigger("plain")
    with pytest.raises(AirflowApiError, match=r"plain .* is not failed.*plain\.answer|ended as success: plain\.answer"):
        airflow.api.wait_for_run("plain", run_id, states=("failed",), timeout_s=0.1)


def test_nothing_listens_beyond_loopback(airflow: LocalAirflow) -> None:
    listening = {
        connection.laddr
        for process in everything(airflow)
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {("127.0.0.1", airflow.port)}


def test_secrets_are_in_no_message(airflow: LocalAirflow) -> None:
    assert airflow.password not in f"{airflow!r} {airflow.api!r}"
    assert (airflow.home / "passwords.json").stat().st_mode & 0o077 == 0


OWNER = """
import sys, time
from pathlib import Path
from demo.airflow import LocalAirflow

airflow = LocalAirflow(Path(sys.argv[1]), dag_folders=[])
airflow.start()
print(*(process.pid for component in airflow.processes.values() for process in component.tree()), flush=True)
if sys.argv[2] == "hang":
    time.sleep(600)
airflow.stop()
"""


@pytest.mark.parametrize("end", ["stop", "hang"])
def test_all_processes_end_with_the_one_that_started_them(end: str, tmp_path: Path) -> None:
    """Also when that one is killed and can clean up nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "airflow"), end], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) > 12, "the components and the executor's processes"
        if end == "hang":
            owner.kill()
        owner.wait(timeout=60)
        wait_until(
            lambda: not any(psutil.pid_exists(pid) for pid in pids),
            timeout_s=20,
            what=lambda: f"left behind: {[pid for pid in pids if psutil.pid_exists(pid)]}",
        )


def test_a_component_that_ends_too_early_is_reported_with_its_log(tmp_path: Path) -> None:
    broken = LocalAirflow(tmp_path, dag_folders=[], env={"AIRFLOW__CORE__EXECUTOR": "NoSuchExecutor"})
    with pytest.raises(ProcessFailedError, match="NoSuchExecutor"):
        broken.start()
    assert not broken.processes


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
        wait_until(lambda: "ready" in process.log_tail(), timeout_s=10, what=process.log_tail)  # noqa: B023
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
    wait_until(lambda: process.log_file.read_text().strip(), timeout_s=10, what=process.log_tail)
    daemon = int(process.log_file.read_text())
    assert psutil.pid_exists(daemon)
    process.kill()
    assert not psutil.pid_exists(daemon)
