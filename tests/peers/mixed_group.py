"""One group of Java workers and ours on a real broker, and the history of all that runs in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from connect_config import ConnectTopics
from connect_workers import ConnectWorkers, Said
from waiting import DEADLINE_S

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.live.classic.classic_member import GroupMember
from airflow_provider.group.live.classic.classic_membership import ClassicMemberships
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.spark.attempts.failures import nothing_secret
from airflow_provider.spark.runner import OnEvent, Runner, RunnerEvent, TaskStarted, TaskStopped
from airflow_provider.spark.runners.noop import NoopRunner
from airflow_provider.values.model import ConnectProtocol, TaskId, Tasks, WorkerId
from airflow_provider.worker.endings.ending import Outcome
from airflow_provider.worker.hands.executor import TaskExecutor
from airflow_provider.worker.hands.port import Released
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.process_identity import is_gone, this_process
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.tasks.state import ExecutionSettings
from airflow_provider.worker.worker import Worker

HEARTBEAT_MS: Final = 300
SESSION_MS: Final = 60_000
"""Nobody is to be lost, however long this machine stands still."""
_NEVER_S: Final = 10.0**9


class OurWorker:
    """The product's worker with its noop runner; its jobs are in Connect's config topic.

    :param note: is called for each task that starts or stops
    """

    def __init__(
        self,
        settings: WorkerSettings,
        memberships: ClassicMemberships,
        topics: ConnectTopics,
        note: Callable[[Said], None],
    ) -> None:
        self._name = settings.member.worker
        self._settings = settings
        self._topics = topics
        self._note = note
        self._worker = Worker(settings, topics=topics, memberships=memberships, make_hands=self._hands)
        self._life = asyncio.ensure_future(self._worker.run())

    @property
    def state(self) -> MemberState:
        return self._member.state

    @property
    def _member(self) -> GroupMember:
        assert isinstance(self._worker.member, GroupMember)
        return self._worker.member

    def story(self) -> str:
        return f"{self._name}: {self.state.phase.value}\n{self._member.story()}"

    async def ended(self) -> Outcome:
        done, _ = await asyncio.wait({self._life}, timeout=DEADLINE_S)
        assert done, f"does not end: {self.story()}"
        outcome = self._life.result()
        await self._topics.aclose()
        return outcome

    async def leave(self) -> Outcome:
        self._worker.leave("the test says so")
        return await self.ended()

    async def aclose(self) -> None:
        self._life.cancel()
        await asyncio.gather(self._life, return_exceptions=True)
        await self._topics.aclose()

    def _hands(
        self, stopped: Released, finished: Released, changed: Callable[[], None], lease: WorkerLease
    ) -> TaskExecutor:
        def make_runner(on_event: OnEvent) -> Runner:
            def tell(event: RunnerEvent) -> None:
                if isinstance(event, (TaskStarted, TaskStopped)) and not event.order.task.is_planner:
                    word, task = "started" if isinstance(event, TaskStarted) else "stopped", event.order.task
                    self._note(Said(word, self._name, wall_ms(), {"job": task.job, "index": task.index}))
                on_event(event)

            return NoopRunner(tell)

        return TaskExecutor(
            ExecutionSettings(
                worker=self._settings.member.worker,
                slots=self._settings.slots,
                process=this_process(),
                lease_ms=self._settings.member.session_timeout_ms,
                linger_ms=round(_NEVER_S * 1000),
                max_spark_deaths=3,
                mask=nothing_secret,
            ),
            group_id=self._settings.member.group_id,
            topics=self._topics,
            make_runner=make_runner,
            checkpoint_root="/nowhere",
            stopped=stopped,
            finished=finished,
            changed=changed,
        )


def javas(protocol: ConnectProtocol) -> ConnectProtocol:
    """The protocol that Java has, too: with a Java worker in the group, ours fall back to it."""
    return ConnectProtocol.SESSIONED if protocol is ConnectProtocol.EXTENSIBLE else protocol


class MixedGroup:
    """A group; names are unique among Java's workers and ours together."""

    def __init__(self, java: ConnectWorkers, bootstrap_servers: str, group_id: str) -> None:
        self.group_id = group_id
        self.ours: dict[str, OurWorker] = {}
        self.jobs: dict[str, int] = {}
        self._java = java
        self._java_names: set[str] = set()
        self._bootstrap_servers = bootstrap_servers
        self.settings = KafkaSettings.from_extra({"bootstrap.servers": bootstrap_servers}, conn_id="tests")
        self._transport = GroupTransport(self.settings)
        self._begins = len(java.said)

    # ---- who is in it

    async def start_java(self, name: str, protocol: ConnectProtocol, *, max_delay_ms: int = 0) -> None:
        self._java_names.add(name)
        self._java.start(
            self._full(name),
            self._bootstrap_servers,
            self.group_id,
            connect_protocol=javas(protocol).value,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            scheduled_rebalance_max_delay_ms=max_delay_ms,
        )
        await self._java.started(self._full(name))

    async def stop_java(self, name: str) -> None:
        self._java.stop(self._full(name))
        await self._java.stopped(self._full(name))
        self._java_names.remove(name)

    async def start_ours(
        self, name: str, protocol: ConnectProtocol, *, max_delay_ms: int = 0, url: str = ""
    ) -> OurWorker:
        topics = ConnectTopics(self.settings, self.group_id, f"{self.group_id}.connect-config")
        await topics.start()
        member = MemberSettings(
            group_id=self.group_id,
            worker=WorkerId(name),
            url=url,
            protocol=protocol,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        settings = WorkerSettings(member=member, slots=100, until=Until.FOREVER)
        policy = Deferred(max_delay_ms=max_delay_ms)
        memberships = ClassicMemberships(member, self._transport, topics, policy=policy, is_gone=is_gone)
        self.ours[name] = OurWorker(settings, memberships, topics, self._note)
        return self.ours[name]

    async def stop_ours(self, name: str) -> None:
        await self.ours.pop(name).leave()

    async def start(self, name: str, protocol: ConnectProtocol) -> None:
        """Start or restart a worker: a Java worker if its name begins with ``java``."""
        if name.startswith("java"):
            await self.start_java(name, protocol)
        else:
            await self.start_ours(name, protocol)

    async def stop(self, name: str) -> None:
        if name.startswith("java"):
            await self.stop_java(name)
        else:
            await self.stop_ours(name)

    async def configured_by_java(self, jobs: Mapping[str, int], protocol: ConnectProtocol) -> None:
        """Have a Java worker make connectors with so many tasks, run them, and leave: then the group is empty."""
        await self.start_java("java-0", protocol)
        for job, tasks in jobs.items():
            await self.configure("java-0", job, tasks)
        await self.balanced()
        await self.stop_java("java-0")

    @property
    def workers(self) -> tuple[str, ...]:
        return (*self._java_names, *self.ours)

    def address(self, name: str) -> str:
        """The name of a Java worker in Connect's REST interface."""
        return self._java.url(self._full(name)).removeprefix("http://")

    async def rest(self, name: str, path: str) -> Any:
        """The answer of a Java worker's REST interface.

        :raises urllib.error.HTTPError: the worker refuses
        """
        return await asyncio.to_thread(self._java.rest, self._full(name), path)

    async def configure(self, name: str, job: str, tasks: int, **config: object) -> None:
        """Have a Java worker make a connector with so many tasks, or change it.

        :raises urllib.error.HTTPError: the worker refuses
        """
        await asyncio.to_thread(self._java.configure, self._full(name), job, tasks_max=tasks, **config)
        self.jobs[job] = tasks

    # ---- what runs in it

    @property
    def said(self) -> list[Said]:
        prefix = self._full("")
        return [
            Said(said.event, said.worker.removeprefix(prefix), said.at_ms, said.more)
            for said in self._java.said[self._begins :]
            if said.worker.startswith(prefix)
        ]

    @property
    def configured(self) -> Tasks:
        return frozenset(TaskId(job, index) for job, count in self.jobs.items() for index in range(-1, count))

    def copies(self, name: str) -> Counter[TaskId]:
        """How many copies of each connector and task run in a worker."""
        if name in self.ours:
            state = self.ours[name].state
            return Counter(state.running - state.stopping if state.phase is Phase.STABLE else ())
        return self._told(name)

    def _told(self, name: str) -> Counter[TaskId]:
        """How many copies run in a worker according to its reports."""
        counts: Counter[TaskId] = Counter()
        for said in self.said:
            if said.worker == name and said.event in ("started", "stopped"):
                counts[said.task] += 1 if said.event == "started" else -1
        return +counts

    def running(self, name: str) -> Tasks:
        return frozenset(self.copies(name))

    def balance(self) -> str | None:
        """What is wrong; None if everything that is configured runs once, evenly spread."""
        workers = self.workers
        copies = sum((self.copies(name) for name in workers), Counter[TaskId]())
        if copies != Counter(self.configured):
            more, less = copies - Counter(self.configured), Counter(self.configured) - copies
            return f"too much: {dict(more)}, too little: {dict(less)}"
        for planners in (True, False):
            counts = {name: sum(task.is_planner is planners for task in self.running(name)) for name in workers}
            if max(counts.values()) - min(counts.values()) > 1:
                return f"not even: {counts}"
        for name in self.ours:
            # An assigned task starts a moment later, and reports nothing if it is revoked before.
            if begins := Counter(task for task in self.copies(name) if not task.is_planner) - self._told(name):
                return f"not begun: {name} {dict(begins)}"
        unsettled = [name for name, worker in self.ours.items() if worker.state.phase is not Phase.STABLE]
        return f"not stable: {unsettled}" if unsettled else None

    async def balanced(self) -> None:
        try:
            await self._java.until(lambda: self.balance() is None, "balanced")
        except AssertionError as late:
            stories = "\n".join(worker.story() for worker in self.ours.values())
            raise AssertionError(f"{self.balance()}\n{late}\n{stories}") from None

    async def until(self, holds: Callable[[], object], what: str) -> None:
        await self._java.until(holds, what)

    async def until_logged(self, words: str) -> None:
        """Wait until a Java worker has logged this, in any test."""
        await self.until(lambda: words in self._java.log(), f"logged: {words}")

    def stops(self, *, since: int) -> Counter[TaskId]:
        """How often each connector and task was stopped after the first ``since`` reports."""
        return Counter(said.task for said in self.said[since:] if said.event == "stopped")

    def seen_to_stop(self, moved: Tasks, before: Mapping[str, Tasks]) -> Tasks:
        """Of what moved, the part whose stop is reported: our planners run for a moment only."""
        return frozenset(
            task for name, had in before.items() for task in had & moved if name not in self.ours or not task.is_planner
        )

    def overlaps(self, *, of: str | None = None) -> dict[TaskId, int]:
        """The tasks of which two copies ever ran together (in one worker, or anywhere), and how long, in ms."""
        running: Counter[TaskId] = Counter()
        doubled: dict[TaskId, int] = {}
        since: dict[TaskId, int] = {}
        steps = [said for said in self.said if said.event in ("started", "stopped") and of in (None, said.worker)]
        for said in sorted(steps, key=lambda said: (said.at_ms, said.event == "started")):
            running[said.task] += 1 if said.event == "started" else -1
            if said.event == "started" and running[said.task] == 2:
                since[said.task] = said.at_ms
            elif said.event == "stopped" and running[said.task] == 1 and said.task in since:
                doubled[said.task] = doubled.get(said.task, 0) + said.at_ms - since.pop(said.task)
        now = wall_ms()
        return {**doubled, **{task: now - at for task, at in since.items()}}

    # ---- its end

    async def __aenter__(self) -> MixedGroup:
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self.ours.values():
            await worker.aclose()
        for name in self._java_names:
            self._java.stop(self._full(name))
        await self._java.stopped(*map(self._full, self._java_names))
        await self._transport.aclose()

    def _full(self, name: str) -> str:
        return f"{self.group_id}/{name}"

    def _note(self, said: Said) -> None:
        self._java.said.append(Said(said.event, self._full(said.worker), said.at_ms, said.more))
