"""A worker with detached streams, on a real broker and a real Spark Connect server, without Airflow."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from fleet import Fleet
from waiting import eventually

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.integration.memberships.group_protocols import GroupProtocolName
from airflow_provider.integration.memberships.worker_values import WatchSpec, WorkerSpec, WorkerStory
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.spark_connect import LocalConnectServer
from airflow_provider.state.records import TaskKind, TaskState, TaskStatus, WorkerPhase
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import ConnectProtocol, TaskId, WorkerId
from airflow_provider.worker.endings.ending import Outcome
from airflow_provider.worker.equipment import NEVER_S, Equipment
from airflow_provider.worker.exit_requests import ExitRequests
from airflow_provider.worker.hands.in_process import InThisProcess
from airflow_provider.worker.holding import Holding, held
from airflow_provider.worker.settings import Until

JOB: Final = "copy"
COPY: Final = TaskId(JOB, 0)
MODULE: Final = "jobs_for_tests"
LINES: Final = 5


def options_of(server: LocalConnectServer, folder: Path) -> tuple[str, ...]:
    """Options of ``cospark worker``."""
    jobs = ("--allow", MODULE, "--checkpoint-root", str(folder / "checkpoints"))
    return ("--spark-master", server.url, *jobs)


class Copying:
    """A stream that copies lines, its input and its output.

    :param job: its class in :mod:`jobs_for_tests`
    :param retries: how often its start may fail
    :param config: further configuration
    """

    def __init__(self, group: Fleet, folder: Path, /, *, job: str = "Append", retries: int = 0, **config: Any) -> None:
        self._group = group
        self._definition: dict[str, Any] = {
            "entry_point": f"{MODULE}:{job}",
            "kind": TaskKind.STREAMING,
            "retries": retries,
        }
        self._input, self._output, self._checkpoints = folder / "input", folder / "output", folder / "checkpoints"
        self._input.mkdir()
        self._written = 0
        self._config = config

    async def submit(self) -> None:
        config = {"input": str(self._input), "output": str(self._output), **self._config}
        await self._group.submit(JOB, tasks=1, config=config, **self._definition)

    async def goes_on(self) -> None:
        """Check that the stream copies new lines."""
        self.write()
        await self.all_copied()

    async def all_copied(self) -> None:
        await eventually(
            lambda: self._has(self._written) and self._is_committed(), "the lines are copied, and their batch committed"
        )

    def write(self) -> None:
        """Add lines, in a file that appears whole or not at all."""
        first = LINES * self._written
        hidden = self._input / f".{self._written}"
        hidden.write_text("".join(json.dumps({"id": each}) + "\n" for each in range(first, first + LINES)))
        hidden.rename(self._input / f"{self._written}.json")
        self._written += 1

    def assert_each_once(self) -> None:
        """Check that each line was copied once. Where Spark writes the files itself, only committed batches count."""
        commits = [file.read_text() for file in (self._output / "_spark_metadata").glob("[0-9]*")]
        named = {json.loads(line)["path"] for said in commits for line in said.splitlines() if line.startswith("{")}
        parts = [Path(unquote(urlsplit(path).path)) for path in named] or self._parts()
        copied = sorted(json.loads(line)["id"] for part in parts for line in part.read_text().splitlines())
        assert copied == list(range(LINES * self._written))

    def _has(self, files: int) -> bool:
        """Whether all lines of these files were copied, also by batches that did not commit: only Spark can tell."""
        copied: set[int] = set()
        for part in self._parts():
            with contextlib.suppress(FileNotFoundError):  # Spark moves what it has written
                copied.update(json.loads(line)["id"] for line in part.read_text().splitlines())
        return copied == set(range(LINES * files))

    def _is_committed(self) -> bool:
        """Whether no batch is under way: who is stopped in one leaves its lines to the next."""

        def batches(log: str) -> set[str]:
            return {Path(each).name for each in glob.iglob(f"{log}/[0-9]*")}  # noqa: PTH207

        queries = [Path(each).parent for each in glob.iglob(f"{self._checkpoints}/**/offsets", recursive=True)]  # noqa: PTH207
        return all(batches(f"{query}/offsets") == batches(f"{query}/commits") for query in queries)

    def _parts(self) -> list[Path]:
        """Unlike :meth:`pathlib.Path.rglob`, this does not fail if Spark deletes a folder meanwhile."""
        found = glob.iglob(f"{self._output}/**/part-*.json", recursive=True)  # noqa: PTH207
        return [Path(each) for each in found]


class Life:
    """One worker, held by a process or by a trigger as the operator would have it.

    :param server: the URL of its server
    :param module: from which it imports jobs
    :param connect_protocol: the embedded protocol, if its group has rounds
    :param group_protocol: with which it joins
    """

    def __init__(
        self,
        group: Fleet,
        worker: str,
        server: str,
        checkpoints: Path,
        *,
        module: str = MODULE,
        connect_protocol: ConnectProtocol = ConnectProtocol.SESSIONED,
        group_protocol: GroupProtocolName = GroupProtocolName.CLASSIC,
    ) -> None:
        self.group = group
        self.worker = WorkerId(worker)
        self.server = server
        self._checkpoints = checkpoints
        self._module = module
        self._connect_protocol = connect_protocol
        self._group_protocol = group_protocol

    @property
    def spec(self) -> WorkerSpec:
        member = MemberSettings(
            group_id=self.group.group_id,
            worker=self.worker,
            protocol=self._connect_protocol,
            session_timeout_ms=30_000,
            heartbeat_interval_ms=1_000,
        )
        watches = WatchSpec(server=self.server, progress_s=1.0, max_spark_deaths=3)
        policy = Deferred(max_delay_ms=300_000)
        return WorkerSpec(
            member=member,
            slots=2,
            until=Until.FOREVER,
            policy=policy,
            group_protocol=self._group_protocol,
            watches=watches,
        )

    async def in_process(
        self, exit_requests: ExitRequests, saved: Mapping[str, Any] | None = None, *, linger_s: float = NEVER_S
    ) -> Outcome:
        equipment = Equipment(
            runner="local",
            allowed=(self._module,),
            checkpoint_root=str(self._checkpoints),
            spark_master=self.server,
            progress_s=1.0,
            linger_s=linger_s,
        )
        spec = self.spec
        holding = Holding(
            protocol=spec.protocol(), settings=spec.settings(WorkerPhase.STABLE), place=InThisProcess(equipment)
        )
        async with held(holding, self.group.settings, exit_requests) as worker:
            outcome, _ = await worker.run(saved)
            return outcome

    def trigger(self, saved: Mapping[str, Any]) -> WorkerTrigger:
        story = WorkerStory(began_ms=wall_ms())
        return WorkerTrigger(kafka_conn_id="broker", plan=self.spec.to_json(), saved=saved, story=story.to_json())

    async def said(self, holds: Callable[[TaskStatus], bool], what: str, task: TaskId = COPY) -> TaskStatus:
        """Wait until the task's status is like this."""

        def look(_jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
            return task in status.tasks and holds(status.tasks[task])

        def failed(last: TaskStatus | None) -> bool:
            return last is not None and last.state is TaskState.FAILED

        await self.group.wait_for(lambda jobs, status: look(jobs, status) or failed(status.tasks.get(task)), what)
        last = self.group.topics.status.tasks[task]
        assert holds(last), f"{what}: {last.error}"
        return last

    async def begun(self, attempt: int = 1) -> TaskStatus:
        """Wait until this attempt runs, and its handle names the query."""

        def runs(last: TaskStatus) -> bool:
            return last.state is TaskState.RUNNING and last.attempt == attempt and bool(last.handle["run_id"])

        return await self.said(runs, f"the query of attempt {attempt} runs, and its record says which")


async def over(trigger: WorkerTrigger, run: asyncio.Future[Any]) -> None:
    """End the trigger as a triggerer does when it is shut down."""
    await trigger.cleanup()
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
