"""Workers that sleep through their session, and leaders that die while tasks wait for a worker."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest
from fleet import NEVER_LOST, SHORT_SESSION, Fleet, MakeFleet
from waiting import DEADLINE_S, LONGEST_SESSION_S, eventually, slow_ms

from airflow_provider.state.records import TaskKind, TaskStatus
from airflow_provider.values.model import TaskId

SPARK = (
    *("--runner", "local", "--allow", "jobs_for_tests", "--slots", "2", "--checkpoint-root", "temporary"),
    *("--spark-conf", "spark.driver.memory=512m"),
)


async def test_the_deadline_of_a_delay_survives_the_leader_that_set_it(fleet: MakeFleet) -> None:
    async with fleet("--runner", "noop", "--slots", "20", *SHORT_SESSION, "--max-delay-ms", slow_ms(24_000)) as group:
        await group.submit("forever", tasks=6, kind=TaskKind.STREAMING)
        group.start("w1")
        await group.balanced("w1")
        for worker in ("w2", "w3"):
            group.start(worker)
        await group.balanced("w1", "w2", "w3")
        leader = group.record.leader
        other, lost = (worker for worker in ("w1", "w2", "w3") if worker != leader)
        waiting = group.owned(lost)

        group.kill(lost)
        await group.wait_for(
            lambda _jobs, status: status.group is not None and status.group.delay_ms > 0, "a delay runs"
        )
        assert group.record.leader == leader
        deadline_ms = group.record.deadline_ms
        group.kill(leader)
        await group.wait_for(
            lambda _jobs, status: status.group is not None and status.group.leader == other, "there is a leader"
        )
        assert group.record.deadline_ms == deadline_ms, group.story()
        await group.balanced(other)

        for task, starts in (await group.starts()).items():
            if task in waiting:
                assert starts[-1].worker == other
                assert deadline_ms <= starts[-1].from_ms, group.story()


async def test_nobody_waits_for_the_session_of_a_worker_whose_process_has_ended(fleet: MakeFleet) -> None:
    assert LONGEST_SESSION_S > DEADLINE_S
    async with fleet("--runner", "noop", *NEVER_LOST) as group:
        await group.submit("forever", tasks=2, kind=TaskKind.STREAMING)
        for worker in ("w1", "w2"):
            group.start(worker)
        await group.balanced("w1", "w2")
        group.kill("w1")
        group.start("w3")
        await group.wait_for(
            lambda _jobs, status: status.group is not None and set(status.group.members) == {"w2", "w3"}, "w3 is there"
        )


@pytest.mark.thorough  # each run has it with a runner, and with workers whose JVM ends (test_faults_lease.py)
async def test_a_worker_that_sleeps_through_its_session_can_write_nothing_when_it_wakes(
    fleet: MakeFleet, tmp_path: Path
) -> None:
    """With real Spark: its tasks write no output, and its statuses win over none of the new worker's."""
    async with fleet(*SPARK, *SHORT_SESSION, "--max-delay-ms", "0") as group:
        seen: list[TaskStatus] = []
        group.topics.subscribe(lambda: seen.extend(group.topics.status.tasks.values()))
        config = {"folder": str(tmp_path)}
        scribe = "jobs_for_tests:Scribe"
        await group.submit("scribe", tasks=2, kind=TaskKind.STREAMING, entry_point=scribe, config=config)
        for worker in ("w1", "w2"):
            group.start(worker)
        await group.balanced("w1", "w2")
        (moving,) = group.owned("w2")
        old = group.topics.status.tasks[moving]
        author = f"{group.pid('w2')} {old.attempt} "
        lines, fenced = tmp_path / f"{moving.index}.lines", tmp_path / f"{moving.index}.fenced"
        await eventually(lambda: lines.exists() and author in lines.read_text(), "w2 writes")

        group.pause("w2")
        paused_at = time.time()
        await group.balanced("w1")
        await eventually(lambda: f"{group.pid('w1')} {old.attempt + 1} " in lines.read_text(), "w1 writes")
        moved = group.topics.status.tasks[moving]
        group.wake("w2")
        await eventually(fenced.exists, "its fence has raised")
        await group.balanced("w1", "w2")

        assert fenced.read_text().startswith(author)
        late = [line for line in lines.read_text().splitlines() if line.startswith(author)]
        assert float(late[-1].split()[-1]) < paused_at + 0.05, "it wrote nothing after it woke"
        steps = [step for step in await group.steps() if step.task == moving]
        (word,) = (
            step for step in steps if step.worker == "w2" and step.finished_at_ms and step.attempt == old.attempt
        )
        assert word.epoch < moved.epoch, "the status it wrote when it woke was of a past epoch"
        assert steps.index(word) > steps.index(moved), "and came after w1's status"
        for task in (TaskId("scribe", 0), TaskId("scribe", 1)):
            epochs = [status.epoch for status in seen if status.task == task]
            assert epochs == sorted(epochs), "it never won"
        shown = json.loads(await cospark(group, "groups", "describe", group.group_id, "--json"))["tasks"]
        assert {shown[f"scribe:{index}"]["worker"] for index in (0, 1)} == {"w1", "w2"}


async def cospark(group: Fleet, *arguments: str) -> str:
    """Run the command in a process of its own, which reads the topics from their beginning."""
    command = (sys.executable, "-m", "airflow_provider.cli.main", *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, "--bootstrap-servers", group.settings.bootstrap_servers, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()
