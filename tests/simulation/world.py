"""Many workers, one coordinator, two topics, virtual time; and what must hold at every moment.

Everything random comes from one seed, so a failing history replays exactly. An assertion that fails carries the story.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from simulation.clock import Clock
from simulation.coordinator import Coordinator
from simulation.group import GroupState
from simulation.network import Network
from simulation.process import Process

from airflow_provider.membership.events import Predecessor
from airflow_provider.membership.model import NO_TASKS, ConfigOffset, Epoch, TaskId, Tasks, WorkerId
from airflow_provider.membership.policy import Deferred, Policy
from airflow_provider.membership.record import GroupRecord
from airflow_provider.membership.settings import MemberSettings
from airflow_provider.membership.state import MemberState, Phase

WALL_AT_START = 1_700_000_000_000
SETTINGS = MemberSettings(group_id="g", worker=WorkerId("template"))


class World:
    """A group, its topics and its workers.

    :param policy: of whichever worker leads
    :param stop_ms: from and to how long a task takes to stop; keep it below the lease's margin
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        settings: MemberSettings = SETTINGS,
        policy: Policy = Deferred(),  # noqa: B008  # frozen
        stop_ms: tuple[int, int] = (5, 50),
        initial_delay_ms: int = 0,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.clock = Clock()
        self.network = Network(self.clock, self.rng)
        self.coordinator = Coordinator(self.clock, self.rng, initial_delay_ms=initial_delay_ms)
        self.coordinator_away = False
        self.settings = settings
        self.policy = policy
        self.processes: dict[str, Process] = {}
        self.everybody: list[Process] = []
        self.record: GroupRecord | None = None
        self.records: list[GroupRecord] = []
        self.finished: Tasks = NO_TASKS
        self._configured: list[Tasks] = [NO_TASKS]
        self._stop_ms = stop_ms
        self._story: deque[str] = deque(maxlen=100_000)
        self._bounces: defaultdict[str, int] = defaultdict(int)

    # ---- time

    @property
    def wall(self) -> int:
        return WALL_AT_START + self.clock.now

    def run(self, ms: int) -> None:
        """Let time pass."""
        until = self.clock.now + ms
        while self._step(until):
            pass

    def run_until(self, condition: Callable[[], bool], *, within_ms: int = 60_000) -> None:
        """Let time pass until something holds."""
        until = self.clock.now + within_ms
        while not condition():
            if not self._step(until):
                raise AssertionError(f"not so within {within_ms} ms\n{self.story()}")

    def _step(self, until: int) -> bool:
        try:
            more = self.clock.step(until=until)
            self.check()
        except Exception as failure:
            raise AssertionError(f"{type(failure).__name__}: {failure}\n{self.story()}") from failure
        return more

    def stop_ms(self) -> int:
        return self.rng.randint(*self._stop_ms)

    # ---- the story

    def note(self, line: str) -> None:
        self._story.append(f"{self.clock.now:8} {line}")

    def story(self, last: int = 150) -> str:
        lines = list(self._story)[-last:]
        return f"seed {self.seed}, at {self.clock.now} ms:\n" + "\n".join(lines)

    # ---- workers

    def start(self, worker: str, *, predecessor: Predecessor | None = None, **changes: Any) -> Process:
        """A new process for this worker; an older one that still lives goes on beside it.

        :param predecessor: what the new process is told; None: the truth
        """
        if predecessor is None:
            namesakes = [old for old in self.everybody if old.worker == worker and old.alive]
            gone = all(old.state.phase.ended and not old.running for old in namesakes)
            predecessor = Predecessor.GONE if gone else Predecessor.UNKNOWN
        process = self._process(worker, **changes)
        process.start(predecessor)
        return process

    def _process(self, worker: str, *, forgetful: bool = False, **changes: Any) -> Process:
        self._bounces[worker] += 1
        settings = replace(self.settings, worker=WorkerId(worker), **changes)
        process = Process(self, settings, worker + "'" * (self._bounces[worker] - 1), forgetful=forgetful)
        self.processes[worker] = process
        self.everybody.append(process)
        self.note(f"{process.name:8} ---- starts")
        return process

    def kill(self, worker: str) -> None:
        """SIGKILL: the coordinator hears nothing of it."""
        self.note(f"{self.processes[worker].name:8} ---- is killed")
        self.processes[worker].kill()

    def hand_over(self, worker: str) -> dict[str, Any]:
        self.note(f"{self.processes[worker].name:8} ---- saves its membership and ends")
        return self.processes[worker].hand_over()

    def go_on(self, worker: str, saved: dict[str, Any]) -> Process:
        process = self._process(worker, protocol=self.processes[worker].settings.protocol)
        process.go_on(saved)
        return process

    def coordinator_back(self) -> None:
        self.coordinator_away = False

    def leave(self, worker: str) -> None:
        self.processes[worker].leave()

    @property
    def live(self) -> dict[str, Process]:
        """The newest process of each worker, where it has not ended."""
        return {
            worker: process
            for worker, process in self.processes.items()
            if process.alive and not process.state.phase.ended
        }

    @property
    def members(self) -> list[Process]:
        """Every process that takes part in the group or wants to, also one whose name another has taken."""
        return [process for process in self.everybody if process.alive and not process.state.phase.ended]

    def running(self, worker: str) -> Tasks:
        return frozenset(self.processes[worker].running)

    # ---- the topics

    @property
    def jobs_offset(self) -> ConfigOffset:
        return ConfigOffset(len(self._configured) - 1)

    @property
    def configured(self) -> Tasks:
        return self._configured[-1] - self.finished

    def configured_at(self, offset: ConfigOffset) -> Tasks:
        return self._configured[offset] - self.finished

    def configure(self, tasks: Iterable[TaskId]) -> None:
        """A record in the jobs topic, after which these are configured."""
        self._configured.append(frozenset(tasks))
        self.note(f"jobs     ---- offset {self.jobs_offset}: {len(self._configured[-1])} tasks are configured")
        for process in self.everybody:
            self.clock.after(self.network.latency(), lambda process=process: process.read_jobs(self.jobs_offset))

    def finish(self, task: TaskId) -> None:
        """A task comes to its own end wherever it runs."""
        self.finished |= {task}
        for process in self.everybody:
            if task in process.running and process.alive and not process.asleep:
                process.finish(task)

    def publish(self, record: GroupRecord) -> None:
        """The group record reaches the status topic after a while, and its readers after another."""

        def written() -> None:
            if self.record is not None and record.epoch < self.record.epoch:
                self.note(f"status   ---- the record of epoch {record.epoch} comes too late")
                return
            self.records.append(record)
            self.record = record
            for process in self.everybody:
                self.clock.after(self.network.latency(), process.read_status)

        self.clock.after(self.network.latency(), written)

    def reason_to_rebalance(self, state: MemberState, offset: ConfigOffset) -> str | None:
        """Why the last round no longer covers what is configured."""
        record = state.record
        if record is None or not record.is_round(state.last_completed, state.last_leader):
            return None
        covered = set().union(*record.assignment.values(), *record.revoked.values())
        if record.deadline_ms:
            covered.update(*record.memory.assignment.values())
        wanted = self.configured_at(offset)
        if wanted - covered:
            return "new work"
        if set().union(*record.assignment.values()) - wanted - self.finished:
            return "removed work"
        return None

    # ---- what must hold

    def check(self) -> None:
        """At every moment: no task may write in two processes."""
        seen: dict[TaskId, str] = {}
        for process in self.everybody:
            for task in process.may_write:
                if task in seen:
                    raise AssertionError(f"{task} runs in {seen[task]} and in {process.name}")
                seen[task] = process.name

    def check_records(self) -> None:
        """Over the whole history: epochs only grow, and nobody is told to start what it is told to stop."""
        epochs: dict[Epoch, tuple[int, str]] = {}
        for record in self.records:
            round_ = (record.generation, record.leader_member)
            assert epochs.setdefault(record.epoch, round_) == round_, f"two rounds are epoch {record.epoch}"
            for worker, tasks in record.revoked.items():
                assert not tasks & record.owned_by(worker), f"epoch {record.epoch} assigns and revokes at {worker}"

    @property
    def settled(self) -> bool:
        """Every configured task runs once; the group is stable, nothing stops and no delay runs."""
        members = self.members
        if members and self.coordinator.state is not GroupState.STABLE:
            return False
        if len(members) != len(self.coordinator.members):
            return False
        states = [member.state for member in members]
        if any(state.phase is not Phase.STABLE or state.stopping or state.rejoin_at for state in states):
            return False
        running = [task for member in members for task in member.running]
        return len(running) == len(set(running)) and set(running) == self.configured

    def spread(self) -> tuple[int, int]:
        """Over all members: the difference between most and least planners, and tasks."""
        shares = [set(process.running) for process in self.members]
        planners = [sum(task.is_planner for task in share) for share in shares]
        tasks = [sum(not task.is_planner for task in share) for share in shares]
        return max(planners) - min(planners), max(tasks) - min(tasks)
