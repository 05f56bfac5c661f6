"""Workers whose Spark dies or does not start: their tasks do not count as failed."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from fleet import MakeFleet

from airflow_provider.servers.java import find_java
from airflow_provider.state.records import TaskState, WorkerPhase
from airflow_provider.values.model import TaskId, WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")
TASKS = [TaskId("lines", index) for index in range(2)]


@pytest.fixture
def fleet(fleet: MakeFleet) -> MakeFleet:
    return partial(fleet, "--allow", "jobs_for_tests", "--spark-master", "local[1]")


async def test_a_killed_jvm_is_noticed_while_its_tasks_make_no_calls(fleet: MakeFleet, tmp_path: Path) -> None:
    async with fleet() as group:
        await group.submit("lines", tasks=2, entry_point="jobs_for_tests:Scribe", config={"folder": str(tmp_path)})
        group.start(W1)
        await group.balanced(W1)
        (jvm,) = (child for child in psutil.Process(group.pid(W1)).children() if child.name() == "java")
        jvm.kill()
        killed = time.monotonic()
        await group.wait_for(
            lambda _jobs, status: all(status.tasks[task].spark_deaths == 1 for task in TASKS),
            "the loss is noticed",
        )
        print(f"noticed after {time.monotonic() - killed:.1f} s")
        await group.balanced(W1)
        print(f"runs again after {time.monotonic() - killed:.1f} s")
        for task in TASKS:
            status = group.topics.status.tasks[task]
            assert (status.attempt, status.failures, status.spark_deaths) == (2, 0, 1)


async def test_a_worker_without_a_spark_master_leaves_its_tasks_to_another(fleet: MakeFleet, tmp_path: Path) -> None:
    async with fleet() as group:
        await group.submit("lines", tasks=2, entry_point="jobs_for_tests:Scribe", config={"folder": str(tmp_path)})
        group.start(W1, "--spark-master", "spark://127.0.0.1:1")
        await group.wait_for(
            lambda _jobs, status: (
                W1 in status.workers
                and status.workers[W1].state is WorkerPhase.LEFT
                and "no Spark master can be reached at spark://127.0.0.1:1" in status.workers[W1].condition
            ),
            "it stands back, and says why",
        )
        group.start(W2)
        await group.balanced(W2)
        for task in TASKS:
            status = group.topics.status.tasks[task]
            assert (status.state, status.attempt, status.failures) == (TaskState.RUNNING, 1, 0)
        assert "worker w1 stands back, and tries again in 5 s" in group.log_of(W1)


async def test_a_worker_is_back_by_itself_when_its_spark_starts(
    fleet: MakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first it has no Java."""
    java, installed = tmp_path / "java" / "bin" / "java", tmp_path / "installed"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n[ -e '{installed}' ] || exit 1\nexec '{find_java()}' \"$@\"\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    async with fleet() as group:
        await group.submit("lines", tasks=2, entry_point="jobs_for_tests:Scribe", config={"folder": str(tmp_path)})
        group.start(W1)
        await group.wait_for(
            lambda _jobs, status: W1 in status.workers and status.workers[W1].state is WorkerPhase.LEFT,
            "it stands back",
        )
        installed.touch()
        await group.balanced(W1)
        for task in TASKS:
            status = group.topics.status.tasks[task]
            assert (status.attempt, status.failures, status.spark_deaths) == (1, 0, 0), "no retry is used up"
