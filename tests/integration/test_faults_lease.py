"""A lease that is over ends the JVM, whatever keeps Python from stopping its streams. They write into one of Spark's
own sinks, so that no Python takes part in their batches.
"""

from __future__ import annotations

import asyncio
import json
import signal
from functools import partial
from pathlib import Path

import psutil
import pytest
from fleet import SHORT_SESSION, SHORT_SESSION_S, Fleet, MakeFleet
from waiting import eventually

from airflow_provider.state.records import TaskKind
from airflow_provider.values.model import TaskId, WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")
TASK = TaskId("copy", 0)


@pytest.fixture
def fleet(fleet: MakeFleet, tmp_path: Path) -> MakeFleet:
    where = ("--allow", "jobs_for_tests", "--checkpoint-root", str(tmp_path / "checkpoints"))
    size = ("--slots", "1", "--spark-master", "local[1]", "--spark-conf", "spark.driver.memory=512m")
    return partial(fleet, *where, *size, *SHORT_SESSION, "--max-delay-ms", "0")


class Copy:
    """A stream that copies what arrives in a folder, in one group."""

    def __init__(self, group: Fleet, folder: Path) -> None:
        self._group = group
        self._input, self._output = folder / "input", folder / "output"
        self._checkpoints = folder / "checkpoints"
        self.hold = folder / "hold"
        self._input.mkdir()
        self._added = 0

    async def begin(self, job: str = "Append") -> psutil.Process:
        """:returns: the JVM of the worker that runs it and has committed its first batch"""
        config = {"input": str(self._input), "output": str(self._output), "hold": str(self.hold)}
        entry_point = f"jobs_for_tests:{job}"
        await self._group.submit(TASK.job, tasks=1, kind=TaskKind.STREAMING, entry_point=entry_point, config=config)
        self.add_row()
        self._group.start(W1)
        await self._group.balanced(W1)
        await eventually(lambda: self.commits == {"0"}, "the first batch is committed")
        (jvm,) = (child for child in psutil.Process(self._group.pid(W1)).children() if child.name() == "java")
        return jvm

    def add_row(self) -> None:
        hidden = self._input / f".{self._added}"
        hidden.write_text(json.dumps({"id": self._added}))
        hidden.rename(self._input / f"{self._added}.json")
        self._added += 1

    @property
    def commits(self) -> set[str]:
        return {path.name for path in self._checkpoints.rglob("commits/[0-9]*")}

    async def goes_on_at(self, *workers: WorkerId) -> None:
        """It copies each row once, and has used up no retry."""
        await self._group.balanced(*workers)
        self.add_row()
        await eventually(lambda: len(self._copied()) >= self._added, "all rows are there")
        assert sorted(self._copied()) == list(range(self._added))
        status = self._group.topics.status.tasks[TASK]
        assert (status.attempt > 1, status.failures) == (True, 0)

    def _copied(self) -> list[int]:
        """The rows in the files that the sink's log names."""
        logs = [path.read_text().splitlines()[1:] for path in (self._output / "_spark_metadata").glob("[0-9]*")]
        files = {Path(json.loads(line)["path"].removeprefix("file://")) for log in logs for line in log}
        return [json.loads(row)["id"] for file in files for row in file.read_text().splitlines()]


async def ended(jvm: psutil.Process) -> None:
    """Its process may not have waited for it yet."""
    await eventually(lambda: not jvm.is_running() or jvm.status() == psutil.STATUS_ZOMBIE, "the JVM has ended")


ENDED = "Spark's JVM has ended itself, because"
REASON = f"{ENDED} this worker had not renewed its lease for"


async def test_the_jvm_of_a_suspended_process_ends_with_the_lease(fleet: MakeFleet, tmp_path: Path) -> None:
    async with fleet() as group:
        copy = Copy(group, tmp_path)
        jvm = await copy.begin()
        group.send(W1, signal.SIGSTOP)
        await ended(jvm)
        group.start(W2)
        await copy.goes_on_at(W2)
        group.send(W1, signal.SIGCONT)
        await copy.goes_on_at(W1, W2)
        await eventually(lambda: REASON in group.log_of(W1), "it says why")


@pytest.mark.thorough  # to a JVM it is a suspended process
async def test_the_jvm_of_a_process_whose_interpreter_a_task_holds_ends_with_the_lease(
    fleet: MakeFleet, tmp_path: Path
) -> None:
    async with fleet() as group:
        copy = Copy(group, tmp_path)
        jvm = await copy.begin("HoldsInterpreter")
        copy.hold.touch()
        await eventually(lambda: not copy.hold.exists(), "it holds the interpreter")
        await ended(jvm)
        assert group.runs(W1)
        group.send(W1, signal.SIGSTOP)  # it would keep a core busy to the end
        group.start(W2)
        await copy.goes_on_at(W2)


async def test_a_jvm_that_wakes_up_after_its_lease_commits_nothing(fleet: MakeFleet, tmp_path: Path) -> None:
    """Although it wakes up first, and its stream has something to do."""
    async with fleet() as group:
        copy = Copy(group, tmp_path)
        jvm = await copy.begin()
        group.pause(W1)
        copy.add_row()
        await asyncio.sleep(SHORT_SESSION_S)
        jvm.resume()
        await ended(jvm)
        assert copy.commits == {"0"}
        group.send(W1, signal.SIGCONT)
        await copy.goes_on_at(W1)
        await eventually(lambda: ENDED in group.log_of(W1), "it says why")


@pytest.mark.thorough  # the words alone; what ends is as above
async def test_the_worker_of_a_suspended_jvm_is_not_said_to_have_stood_still(fleet: MakeFleet, tmp_path: Path) -> None:
    async with fleet() as group:
        copy = Copy(group, tmp_path)
        jvm = await copy.begin()
        jvm.suspend()
        await asyncio.sleep(SHORT_SESSION_S)
        jvm.resume()
        await ended(jvm)
        await copy.goes_on_at(W1)
        await eventually(lambda: f"{ENDED} it had not answered for" in group.log_of(W1), "it says why")
