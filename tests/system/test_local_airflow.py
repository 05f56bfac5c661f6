"""The Airflow of the demo and the system tests works, and is only reachable from this machine."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress

import psutil
import pytest
from postgresql import DATABASE
from waiting import DEADLINE_S, wait_until

from demo.airflow import LocalAirflow
from demo.airflow_api import AirflowApi, AirflowApiError


@pytest.mark.side_by_side
def test_a_task_runs_and_its_log_and_value_can_be_read(airflow: LocalAirflow) -> None:
    airflow.api.wait_for_dag("plain")
    run_id = airflow.api.trigger("plain")
    airflow.api.wait_for_run("plain", run_id)
    instance = airflow.api.task_instance("plain", run_id, "answer")
    assert instance.state == "success"
    assert airflow.api.xcom(instance) == 42
    assert "the host is broker.example" in airflow.api.log(instance)


@pytest.mark.side_by_side
def test_a_task_that_a_user_marks_failed_ends(airflow: LocalAirflow) -> None:
    api = airflow.api
    api.wait_for_dag("sleeps")
    run_id = api.trigger("sleeps")
    instance = api.wait_for_task("sleeps", run_id, "sleep", states=("running",))
    process = psutil.Process(api.running_pid(instance))
    api.set_state(instance, "failed")
    api.wait_for_run("sleeps", run_id, states=("failed",))
    process.wait(timeout=DEADLINE_S)


def test_a_wait_that_fails_says_what_is_there(airflow: LocalAirflow) -> None:
    def impatient(timeout_s: float) -> closing[AirflowApi]:
        return closing(
            AirflowApi(airflow.url, username=airflow.username, password=airflow.password, timeout_s=timeout_s)
        )

    with impatient(1) as api, pytest.raises(AirflowApiError, match="no file has a DAG unheard_of"):
        api.wait_for_dag("unheard_of")
    airflow.api.wait_for_dag("plain")
    run_id = airflow.api.trigger("plain")
    ended = r"plain .* is not failed.*plain\.answer|ended as success: plain\.answer"
    with impatient(10) as api, pytest.raises(AirflowApiError, match=ended):
        api.wait_for_run("plain", run_id, states=("failed",))


_WRITE = """
from airflow.settings import engine
print("begins", flush=True)
input()
with engine.begin() as connection:
    connection.exec_driver_sql("UPDATE job SET state = state")
"""


@pytest.mark.skipif(DATABASE != "sqlite", reason="only in SQLite does a write keep out all others")
def test_a_component_waits_for_another_ones_long_write(airflow: LocalAirflow) -> None:
    """As when two connections of the API server wait for each other: a scheduler that gave up would end."""
    env = psutil.Process(airflow.processes["scheduler"].pid).environ()
    with closing(sqlite3.connect(airflow.home / "airflow.db", isolation_level=None, timeout=60)) as database:
        command, pipe = [sys.executable, "-c", _WRITE], subprocess.PIPE
        with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"begins\n"
            database.execute("BEGIN IMMEDIATE")
            writer.stdin.write(b"\n")
            writer.stdin.flush()
            time.sleep(6)  # longer than SQLite's own timeout
            assert writer.poll() is None
            database.execute("COMMIT")
    assert writer.returncode == 0


def test_nothing_listens_beyond_loopback(airflow: LocalAirflow) -> None:
    def listening() -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        for process in (process for component in airflow.processes.values() for process in component.tree()):
            with suppress(psutil.NoSuchProcess):
                connections = process.net_connections()
                found |= {each.laddr for each in connections if each.status == psutil.CONN_LISTEN}
        return found

    # The Spark of a worker that another test has just stopped may listen a little longer.
    wait_until(lambda: listening() == {("127.0.0.1", airflow.port)}, what=lambda: f"listening: {listening()}")


def test_secrets_are_in_no_message(airflow: LocalAirflow) -> None:
    assert airflow.password not in f"{airflow!r} {airflow.api!r}"
    assert (airflow.home / "passwords.json").stat().st_mode & 0o077 == 0
