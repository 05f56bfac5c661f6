"""Many workers and several coordinators of one declarative group, and the topics between them, in virtual time.

Everything random comes from one seed, so a failing history replays exactly. An assertion that fails carries the story.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from simulation.clock import Clock
from simulation.declarative import invariants
from simulation.declarative.candidate import Candidate
from simulation.declarative.candidates import Candidates
from simulation.declarative.checks import Checks
from simulation.declarative.jobs import Jobs
from simulation.declarative.process import Process
from simulation.declarative.shard_topics import KeyAndValue, ShardTopics
from simulation.declarative.wire import GOOD, Weather
from simulation.failing import HistoryError

from airflow_provider.assignment.policy import Deferred, Policy
from airflow_provider.group.declarative.assignors import CooperativeAssignor, assignors_offered
from airflow_provider.group.declarative.assignors.client_assignor import ClientSideAssignor
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings, MigrationPolicy
from airflow_provider.group.declarative.member.settings import DeclarativeSettings
from airflow_provider.group.declarative.member.state import Phase
from airflow_provider.group.declarative.protocol.wire.messages.apis import Reply, encode_request, request_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupAlterConfigsRequest
from airflow_provider.group.declarative.server.migration.bridges import Bridges
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.values.model import Epoch, MemberId, TaskId, WorkerId

PEOPLE = b"people"
DEFERRED = ("w5", "w6")
"""Workers that are in a triggerer."""
STARTS_WITHIN_MS = 2_000
"""How much longer than its session the tasks of a worker wait that Airflow does not start."""
WALL_AT_START = 1_700_000_000_000
REBALANCE_TIMEOUT_MS = 20_000
QUICK_MS = (1, 1_200)
SLOW_MS = (1, 30_000)


class World:
    """A group, its topics, its workers and its coordinators.

    :param policy: of the assignor
    :param coordinators: the number of candidates
    :param clock_drift_ppm: how much faster or slower than the world's a process's clock may be, in millionths; two of
        them differ by up to twice that
    :param wall_skew_ms: how far a process's wall clock may be off
    :param clock: another world's; None for its own
    :param bridges: makes the bridges of a candidate, in a world with classic workers
    :param slow: the probability, from 0 to 1, that a process's tasks take longer to stop than allowed
    :ivar records: the last record of each worker in the status topic
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        policy: Policy = Deferred(),  # noqa: B008  # frozen
        coordinators: int = 1,
        clock_drift_ppm: int = 0,
        wall_skew_ms: int = 0,
        slow: float = 0.0,
        clock: Clock | None = None,
        bridges: Callable[[Candidate], Bridges] | None = None,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(f"{seed}/world")
        self.clock = clock or Clock()
        self.bridges = bridges
        self.clock_drift_ppm = clock_drift_ppm
        self.wall_skew_ms = wall_skew_ms
        self.slow = slow
        self.assignors: tuple[ClientSideAssignor, ...] = assignors_offered(policy=policy)
        self.jobs = Jobs()
        self.weather: Weather = GOOD
        self.is_slow_to_load = self.at_peace = False
        self.struck: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.steps = 0
        self.processes: dict[bytes, Process] = {}
        self.live: dict[str, Process] = {}
        self.names: dict[MemberId, str] = {}
        self.expected: set[str] = set()
        self.all_well = True
        self.records: dict[WorkerId, WorkerStatus] = {}
        self._numbers = count(1)
        self._story: deque[tuple[int, object]] = deque(maxlen=400)
        self.checks = Checks(self)
        self.topics = ShardTopics(random.Random(f"{seed}/topics"), committed=self._committed, replied=self._replied)
        self.candidates: Candidates
        self._cooperative = CooperativeAssignor(policy=policy)
        granted = CoordinatorSettings(
            session_timeout_ms=10_000,
            migration=MigrationPolicy.DISABLED if bridges is None else MigrationPolicy.BIDIRECTIONAL,
        )
        self.candidates = Candidates(self, coordinators, granted)

    @property
    def wall(self) -> int:
        return WALL_AT_START + self.clock.now

    # ---- time

    def run(self, ms: int) -> None:
        """Let time pass."""
        until = self.clock.now + ms
        while self._step(until):
            pass

    def comes_to(self, condition: Callable[[], bool], *, within_ms: int) -> bool:
        """Let time pass until something holds.

        :return: whether it does
        """
        until = self.clock.now + within_ms
        while not condition():
            if not self._step(until):
                return False
        return True

    def _step(self, until: int) -> bool:
        try:
            more = self.clock.step(until=until)
            self.checks.look()
        except Exception as failure:
            raise HistoryError(failure, self) from failure
        self.steps += more
        return more

    # ---- workers

    def settings_of(self, worker: str) -> DeclarativeSettings:
        return DeclarativeSettings(group_id="g", worker=WorkerId(worker), rebalance_timeout_ms=REBALANCE_TIMEOUT_MS)

    def _process(self, worker: str) -> Process:
        name = f"{worker}.{next(self._numbers)}"
        is_slow = self.rng.random() < self.slow and not self.at_peace
        process = Process(self, self.settings_of(worker), name, stop_ms=SLOW_MS if is_slow else QUICK_MS)
        process.touched = is_slow
        self.processes[process.reader] = self.live[worker] = process
        return process

    def start(self, worker: str, predecessor: Predecessor = Predecessor.GONE) -> Process:
        process = self._process(worker)
        self._write(process, WorkerPhase.DEFERRED if worker in DEFERRED else WorkerPhase.STABLE)
        self.note(f"{process.name:8} ---- starts, what was before is {predecessor.value}")
        self.names[process.member_id] = worker
        process.start(predecessor)
        return process

    def go_on(self, worker: str, saved: dict[str, Any], *, touched: bool) -> Process:
        process = self._process(worker)
        process.touched |= touched
        self.note(f"{process.name:8} ---- goes on with a saved membership")
        process.go_on(saved, Predecessor.GONE)
        self._write(process, WorkerPhase.STABLE)
        self.names[process.member_id] = worker
        return process

    def hold_back(self, process: Process) -> None:
        """The process hands over its membership and ends, and Airflow does not start the next one."""
        self._write(process, WorkerPhase.DEFERRED, awaits=Awaited.PROCESS, returns_ms=STARTS_WITHIN_MS)
        self.kill(process)

    def _write(self, process: Process, phase: WorkerPhase, **said: Any) -> None:
        """Write its record in the status topic."""
        worker = WorkerId(process.worker)
        self.records[worker] = WorkerStatus(
            worker=worker, state=phase, epoch=Epoch(0), slots=4, at_ms=self.wall, member_id=process.member_id, **said
        )

    def kill(self, process: Process) -> None:
        if process.alive:
            self.note(f"{process.name:8} ---- is gone")
            process.kill()
        if self.live.get(process.worker) is process:
            del self.live[process.worker]

    def later(self, ms: int, worker: str, do: Callable[[], object]) -> None:
        """A worker's next process starts after a while, unless another one has started."""
        self.expected.add(worker)

        def begin() -> None:
            self.expected.discard(worker)
            if worker not in self.live:
                do()

        self.clock.after(ms, begin)

    def ended(self, process: Process) -> None:
        """Its membership has ended and nothing runs there: the process ends."""
        self.kill(process)

    def expelled(self, process: Process) -> None:
        if self.all_well:
            invariants.a_healthy_worker_stays_a_member(process)

    @property
    def members(self) -> list[Process]:
        return [process for process in self.processes.values() if process.in_group]

    def jobs_changed(self) -> None:
        self.note("jobs     ---- " + " ".join(str(task) for task in sorted(self.jobs.configured)))
        self.candidates.jobs_changed()
        for process in self.members:
            self.clock.after(process.rng.randint(1, 300), process.read_jobs)

    # ---- events

    def started(self, process: Process, task: TaskId, epoch: Epoch) -> None:
        self.checks.started(process, task, epoch)

    def stopped(self, process: Process, task: TaskId) -> None:
        self.checks.stopped(process, task)

    def configure(self, request: ConnectGroupAlterConfigsRequest) -> None:
        """Somebody requests this; nobody waits for the reply."""
        number = next(self._numbers)
        self.ask(PEOPLE, encode_request(request_of(request, correlation_id=number, reply_partition=0)))

    def ask(self, reader: bytes, value: bytes) -> None:
        self.topics.ask(reader, value)
        self.candidates.look()

    def served(self, candidate: Candidate) -> None:
        self.checks.served(candidate)

    def _committed(self, records: Sequence[KeyAndValue]) -> None:
        self.checks.committed(records)

    def _replied(self, reader: bytes, reply: Reply) -> None:
        process = self.processes.get(reader)
        if process is not None and process.alive:
            process.replied(reply)

    def loading_ms(self) -> int:
        return self.rng.randint(*((500, 9_000) if self.is_slow_to_load else (5, 300)))

    def committing_ms(self) -> int:
        return self.rng.randint(1, 8)

    # ---- peace

    def make_peace(self) -> None:
        """From now on there are no faults."""
        self.at_peace = True
        self.all_well = False
        self.weather = GOOD
        self.is_slow_to_load = False
        self.topics.faults.clear()
        for process in list(self.processes.values()):
            if process.alive:
                process.cut_off = process.offers.failing = False
                process.copies.stop_ms = QUICK_MS

    def why_not_at_rest(self) -> str:
        """Why the group is not at rest; empty if it is."""
        group = self.checks.group
        members = self.members
        if self.expected or any(process.asleep for process in members):
            return "a worker is still to start or to wake"
        if any(process.state.phase is not Phase.STABLE for process in members):
            return f"a member is not stable: {[(one.name, one.state.phase.value) for one in members]}"
        if group.configured != self.jobs.configured:
            return "the coordinator has not recorded what is configured"
        if {process.member_id for process in members} != set(group.members) or group.lingering:
            return f"members are {sorted(group.members)}, lingering {sorted(group.lingering)}"
        if int(group.target.epoch) != group.epoch:
            return f"the target is of {group.target.epoch}, the group at {group.epoch}"
        if group.target.delayed or group.target.error:
            return f"tasks wait for {sorted(group.target.delayed)}, the assignor's error is {group.target.error}"
        if self._another_is_due():
            return "another assignment is due: not all that is to move could move in one"
        return next(self._not_there_yet(), "")

    def _not_there_yet(self) -> Iterator[str]:
        group, members = self.checks.group, self.members
        epoch = int(group.epoch)
        for process in members:
            target = group.target.of(process.member_id).tasks
            if group.current[process.member_id].epoch != epoch or process.state.epoch != epoch:
                yield f"{process.name} is at {process.state.epoch}, the group at {group.epoch}"
            if process.copies.running.keys() != target or process.copies.writing != target:
                yield f"{process.name} runs {sorted(process.copies.running)}, and should {sorted(target)}"

    def _another_is_due(self) -> bool:
        """Whether the assignor wanted another assignment after the target, whoever computed it."""
        shares = self.checks.group.target.members.values()
        return any(self._cooperative.on_assignment(share) is not None for share in shares)

    # ---- the story

    def note(self, line: object) -> None:
        """:param line: the text, or a function that is only called if the story is shown"""
        self._story.append((self.clock.now, line))

    @property
    def told(self) -> Sequence[tuple[int, object]]:
        """The end of the story."""
        return list(self._story)

    def story(self, last: int = 150) -> str:
        group = self.checks.group
        lines = [f"{at:>9} {line() if callable(line) else line}" for at, line in list(self._story)[-last:]]
        lines.append(f"group epoch {group.epoch}, target {group.target.epoch}: {group.target.members}")
        lines += [f"  {member}: {current}" for member, current in group.current.items()]
        return "\n".join(lines)
