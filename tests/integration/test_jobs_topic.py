"""Whatever somebody writes to the jobs topic, no code runs that the worker does not allow."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import textwrap
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from fleet import Fleet
from skipped_records import skipped_records
from waiting import DEADLINE_S

from airflow_provider.cli.main import main
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import ControlAction, ControlRecord, JobDefinition, PlanRecord, TaskState, encode
from airflow_provider.values.model import TaskId, WorkerId, planner_of

# Imported or called, each of these leaves a file.
MODULES = {
    "allowedjobs/__init__.py": "import os",
    "allowedjobs/good.py": """
        import os
        import elsewherejobs
        from airflow_provider.spark.job import SparkJob, spark_job

        class Good(SparkJob):
            library = elsewherejobs

            def plan(self, job):
                return [{}]

            def run(self, spark, task):
                return {"location": task.checkpoint_location}

        good = Good()
    """,
    "allowedjobsevil.py": "import pathlib, os; pathlib.Path(os.environ['TRACE'], 'prefix').touch()",
    "elsewherejobs.py": """
        import os, pathlib
        from airflow_provider.spark.job import SparkJob

        class Elsewhere(SparkJob):
            def __init__(self):
                pathlib.Path(os.environ["TRACE"], "elsewhere").touch()
    """,
}

# Entry points, and the error that the planner's status has. Nothing may appear in the folder "$TRACE".
REFUSED = {
    "os-system": ("os:system", "module os is not allowed here"),
    "builtins": ("builtins:eval", "module builtins is not allowed here"),
    "subprocess": ("subprocess:run", "module subprocess is not allowed here"),
    "prefix": ("allowedjobsevil:run", "module allowedjobsevil is not allowed here"),
    "full-width": ("\uff41llowedjobs.good:Good", "is not allowed here"),
    "product": ("airflow_provider.cli.main:main", "module airflow_provider.cli.main is not allowed here"),
    "through-os": ("allowedjobs:os.system", "leads through a module"),
    "through-library": ("allowedjobs.good:elsewherejobs.Elsewhere", "leads through a module"),
    "through-class": ("allowedjobs.good:Good.library.Elsewhere", "leads through a module"),
    "globals": ("allowedjobs.good:Good.run.__globals__", "leads through a function"),
    "initializer": ("allowedjobs.good:Good.__init__.__globals__", "is Python's own name"),
    "evaluate": ("allowedjobs.good:__builtins__.eval", "is Python's own name"),
    "missing": ("allowedjobs.nothere:Good", "there is no module allowedjobs.nothere"),
    "method": ("allowedjobs.good:Good.run", "is not a SparkJob"),
    "many-parts": (f"allowedjobs{'.x' * 240}:Good", "there is no module allowedjobs.x"),
}
UNREADABLE_ENTRY_POINTS = [
    "../allowedjobs.good:Good",
    ".allowedjobs:Good",
    "allowedjobs..good:Good",
    "allowedjobs.good",
    "allowedjobs.good:Good()",
    "allowedjobs.good:Good;import os",
    "allowedjobs.good:Good\n",
    "allowedjobs/good:Good",
    "allowedjobs.good:lambda: 0",
    f"allowedjobs.good:{'G' * 300_000}",
    f"allowedjobs{'.x' * 100_000}:Good",
    "",
    ":",
]


class Touch:
    """Leaves a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("touch $TRACE/pickle",)


def definition(name: str, entry_point: str = "allowedjobs.good:Good", **other: object) -> JobDefinition:
    values: dict[str, Any] = {"name": name, "entry_point": entry_point, "submitted_at_ms": wall_ms(), **other}
    return JobDefinition(**values)


def garbage() -> list[tuple[bytes, bytes]]:
    """Records that must be skipped as unreadable."""
    whole = definition("whole").to_json()

    def job(name: str, **changed: object) -> tuple[bytes, bytes]:
        return f"job:{name}".encode(), json.dumps({"v": 1, **whole, "name": name, **changed}).encode()

    records = [job(f"odd-{number}", entry_point=text) for number, text in enumerate(UNREADABLE_ENTRY_POINTS)]
    records += [job(name) for name in ("../escape", "..", "a/b", "/etc/passwd", "a%2fb", "a\x00b", "x" * 201)]
    records += [
        job("half", run_key="half \ud83d"),
        job("late", retries=1, retry_delay_ms=10**400),
        job("wide", max_tasks=10**30),
        (b"job:whole", json.dumps({"v": 1, **whole, "name": "another"}).encode()),
        (b"job:pickle", pickle.dumps(Touch())),
        (b"job:pickled-config", json.dumps({"v": 1, **whole, "config": pickle.dumps(Touch(), 0).decode()}).encode()),
        (b"job:yaml", b"!!python/object/apply:os.system ['touch $TRACE/yaml']"),
        (b"job:deep", b'{"v": 1, "config": ' + b'{"a":' * 100_000),
        (b"plan:pickle", pickle.dumps([Touch()])),
        (b"control:w1", json.dumps({"v": 1, "worker": "w1", "action": "os.system", "at_ms": wall_ms()}).encode()),
        (b"control:w1", json.dumps({"v": 1, "worker": "other", "action": "stop", "at_ms": wall_ms()}).encode()),
        (b"group", b"{}"),
        (b"task:forever:0", b"{}"),
    ]
    return records


def forged() -> list[tuple[str, dict[str, Any]]]:
    """Readable records that must have no effect."""
    forbidden = definition("forged", "os:system", max_tasks=2)
    plan = PlanRecord.of(forbidden, [{"command": "touch $TRACE/plan"}] * 2, planned_by=WorkerId("w1"), at_ms=1)
    unknown = definition("not-there", "os:system")
    return [
        ("job:forged", forbidden.to_json()),
        ("plan:forged", plan.to_json()),
        ("plan:not-there", PlanRecord.of(unknown, [{}], planned_by=WorkerId("w1"), at_ms=1).to_json()),
        (
            "control:w2",
            ControlRecord(worker=WorkerId("w2"), action=ControlAction.STOP, at_ms=wall_ms() + 10**9).to_json(),
        ),
        *((f"job:{name}", definition(name, entry_point).to_json()) for name, (entry_point, _) in REFUSED.items()),
    ]


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which forbidden code leaves a file if it runs."""
    for name, source in MODULES.items():
        file = tmp_path / "modules" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(source))
    folder = tmp_path / "trace"
    folder.mkdir()
    monkeypatch.setenv("TRACE", str(folder))
    monkeypatch.setenv("COLUMNS", "250")
    return folder


def folder_of(location: str) -> Path:
    """The real folder of this location, with all dots resolved."""
    return Path(location).resolve().parent


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


async def test_no_record_makes_a_worker_run_what_it_does_not_allow(
    broker: LocalBroker, group_id: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes on with its other tasks, and reports what it refused."""
    root = tmp_path / "checkpoints"
    run = ("--runner", "local", "--spark-master", "local[1]", "--allow", "allowedjobs", "--slots", "4")
    options = (*run, "--checkpoint-root", str(root))
    async with Fleet(broker.bootstrap_servers, group_id, tmp_path, *options, modules=tmp_path / "modules") as group:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 10_000_000})
        unreadable = garbage()
        for key, value in unreadable:
            producer.produce(group.topics.names.jobs, key=key, value=value)
        for name, data in forged():
            producer.produce(group.topics.names.jobs, key=name.encode(), value=encode(data))
        assert await asyncio.to_thread(producer.flush, DEADLINE_S) == 0
        tagged = {"checkpoint_key": "../../../escape", "!!python/object/apply:os.system": ["touch $TRACE/tag"]}
        await group.topics.submit(definition("first"))
        await group.topics.submit(definition("tagged", config=tagged))
        group.start("w1")

        def refused_or_done(_: object, status: Any) -> bool:
            told = status.tasks
            planners = [planner_of(name) for name in REFUSED]
            tasks = [TaskId("first", 0), TaskId("tagged", 0), TaskId("forged", 0), TaskId("forged", 1)]
            return all(task in told and told[task].state.final for task in (*planners, *tasks))

        await group.wait_for(refused_or_done, "each is refused or done")
        told = group.topics.status.tasks
        for name, (_, reason) in REFUSED.items():
            error = told[planner_of(name)].error
            assert told[planner_of(name)].state is TaskState.FAILED, name
            assert error is not None
            assert reason in error.message, name
        for index in (0, 1):
            error = told[TaskId("forged", index)].error
            assert error is not None
            assert "module os is not allowed here" in error.message
        assert not any(task.job == "not-there" for task in told)
        assert group.topics.jobs.unreadable == len(unreadable)

        assert told[TaskId("first", 0)].state is TaskState.FINISHED
        assert folder_of(told[TaskId("tagged", 0)].result["location"]) == root / group_id / "tagged"

        # It is still in the group and takes new work.
        await group.topics.submit(definition("after"))
        await group.wait_for(
            lambda _, status: (
                (last := status.tasks.get(TaskId("after", 0))) is not None and last.state is TaskState.FINISHED
            ),
            "the job that was submitted afterwards runs",
        )
        log = group.log_of("w1")
        assert skipped_records(log) == len(unreadable)
        assert "Traceback" not in log
        assert len(log) < 1_000_000
    assert names_in(trace) == []
    for command in (("status", group_id, "--once"), ("jobs", "list", group_id)):
        await asyncio.to_thread(main, [*command, "--bootstrap-servers", broker.bootstrap_servers])
        assert "module os is not allowed" in " ".join(capsys.readouterr().out.split())
