"""Work for real Spark whose output shows whether anything was lost or done twice."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

from fleet import Fleet, overlaps

from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import job_progress
from airflow_provider.values.model import TaskId, WorkerId

LINES: Final = 20
_EXAMPLES: Final = "airflow_provider.example_dags.jobs"
ALLOWED: Final = ("--allow", "jobs_for_tests", "--allow", _EXAMPLES)


class SparkWork:
    """A bounded job that writes numbers, and streams that copy lines.

    :param tasks: number of tasks of the bounded job
    """

    def __init__(self, group: Fleet, folder: Path, *, tasks: int, streams: int = 1) -> None:
        self._group = group
        self._folder = folder
        self._tasks = tasks
        self._streams = tuple(f"copy{number}" for number in range(streams))
        self._written = 0

    async def submit(self) -> None:
        self.write_lines()
        for stream in self._streams:
            config = {"input": str(self._folder / stream / "input"), "output": str(self._folder / stream / "copied")}
            entry_point = f"{_EXAMPLES}:CopyLines"
            await self._group.submit(stream, tasks=1, kind=TaskKind.STREAMING, entry_point=entry_point, config=config)
        numbers = {"rows": 100 * self._tasks, "seconds": 3, "output": str(self._folder / "numbers")}
        await self._group.submit("numbers", tasks=self._tasks, entry_point="jobs_for_tests:Numbers", config=numbers)

    def write_lines(self) -> None:
        """Add lines for each stream, in a file that appears whole or not at all."""
        start = LINES * self._written
        lines = "".join(json.dumps({"id": each}) + "\n" for each in range(start, start + LINES))
        for stream in self._streams:
            folder = self._folder / stream / "input"
            folder.mkdir(parents=True, exist_ok=True)
            hidden = folder / f".{self._written}"
            hidden.write_text(lines)
            hidden.rename(folder / f"{self._written}.json")
        self._written += 1

    def is_at_work(self, worker: str, since_ms: int, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
        """Whether the worker's process is in the group and has started a task since, or nothing is left to run."""
        told = status.workers.get(WorkerId(worker))
        if told is None or told.process.split("/")[2] != str(self._group.pid(worker)) or not told.state.applied:
            return False
        progress = job_progress("numbers", jobs, status)
        return (progress is not None and progress.complete) or any(
            seen.worker == worker and seen.state is TaskState.RUNNING and (seen.started_at_ms or 0) > since_ms
            for seen in status.tasks.values()
        )

    async def complete(self) -> None:
        await self._group.wait_for(
            lambda jobs, status: (seen := job_progress("numbers", jobs, status)) is not None and seen.complete,
            "the bounded job is complete",
        )
        for stream in self._streams:
            await self._group.eventually(partial(self._all_copied, stream), f"all lines of {stream} are copied")

    def _all_copied(self, stream: str) -> bool:
        return len(_rows(self._folder / stream / "copied")) >= LINES * self._written

    async def check(self) -> None:
        """Check the output. Call it when no worker runs any more."""
        for stream in self._streams:
            assert _rows(self._folder / stream / "copied") == list(range(LINES * self._written)), "each line once"
        assert _rows(self._folder / "numbers") == list(range(100 * self._tasks)), "each number once"
        steps = await self._group.steps()
        # The end of one start may be recorded twice: again if a new epoch began while it was being written.
        ended = {
            (step.task, step.worker, step.started_at_ms)
            for step in steps
            if step.state is TaskState.FINISHED and step.task.job == "numbers" and not step.task.is_planner
        }
        assert Counter(task for task, _, _ in ended) == {TaskId("numbers", index): 1 for index in range(self._tasks)}
        assert not overlaps(steps)
        epochs = [each.record.epoch for each in await self._group.rounds()]
        assert epochs == sorted(set(epochs))


def _rows(folder: Path) -> list[int]:
    """All rows that were written, sorted, with duplicates."""
    parts = folder.glob("*/part-*.json")
    return sorted(json.loads(line)["id"] for part in parts for line in part.read_text().splitlines())
