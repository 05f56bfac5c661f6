"""Many workers, one coordinator and two topics in virtual time; and what must hold at every moment.

Everything random comes from one seed, so a failing history replays exactly. An assertion that fails carries the story.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from simulation import invariants
from simulation.checks import Checks
from simulation.clock import Clock
from simulation.coordinator import Coordinator
from simulation.culprits import Culprits
from simulation.failing import HistoryError
from simulation.jobs import JobsTopic
from simulation.lacking import Lacking
from simulation.network import Network
from simulation.process import Process
from simulation.rest import is_settled
from simulation.rounds import Computed, Round, Start, read_round
from simulation.status import StatusTopic, TaskWord
from simulation.trials import Trials

from airflow_provider.assignment.model import Absence
from airflow_provider.assignment.policy import Deferred, Policy
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.state.records import PlanRecord, WorkerStatus
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import (
    Epoch,
    GenerationId,
    MemberId,
    TaskId,
    Tasks,
    WorkerId,
)

WALL_AT_START = 1_700_000_000_000
NO_LIMIT = 1_000
"""More slots than any worker needs."""
SETTINGS = MemberSettings(group_id="g", worker=WorkerId("template"))


class World:
    """A group, its topics and its workers.

    :param policy: of the leader, whichever worker it is
    :param slots: how many tasks each worker runs at the same time
    :param stop_ms: from and to how long a task takes to stop; keep it below the lease's margin
    :param clock_drift_ppm: how much faster or slower than the coordinator's a process's clock may be, in millionths;
        two of them differ by up to twice that
    :param wall_skew_ms: how far a process's wall clock may be off
    :param named: whether workers that come back are known by their names, as ours are; Connect's are not
    :param returns_ms: each process announces one of these as the longest time of its return, which may be wrong
    :param stateful: the jobs whose tasks warm up; they are streams
    :param jobs: an empty topic, if tasks differ in other ways, too
    :param learned: each process has one of these rules
    :param warm_ms: from and to how long a warm-up takes
    :param warm_up_fails: the probability of its failure, from 0 to 1
    :param cold_start_ms: how long a task that was not made ready runs before it does its work
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        settings: MemberSettings = SETTINGS,
        policy: Policy = Deferred(),  # noqa: B008  # frozen
        slots: Sequence[int] = (NO_LIMIT,),
        stop_ms: tuple[int, int] = (5, 50),
        initial_delay_ms: int = 0,
        clock_drift_ppm: int = 0,
        wall_skew_ms: int = 0,
        named: bool = True,
        returns_ms: Sequence[int | None] = (None,),
        stateful: frozenset[str] = frozenset(),
        jobs: JobsTopic | None = None,
        learned: Sequence[LearnedRule] = (LearnedRule.WHEN_READY,),
        warm_ms: tuple[int, int] = (2_000, 8_000),
        warm_up_fails: float = 0.0,
        cold_start_ms: int = 0,
    ) -> None:
        self.seed = seed
        self.named = named
        self.returns_ms = returns_ms
        self.learned = learned
        self.warm_ms = warm_ms
        self.warm_up_fails = warm_up_fails
        self.cold_start_ms = cold_start_ms
        self.clock = Clock()
        self.network = Network(self.clock)
        self.coordinator = Coordinator(
            self.clock, random.Random(f"{seed}/coordinator"), initial_delay_ms=initial_delay_ms
        )
        self._coordinator_away = False
        self.settings = settings
        self.policy = policy
        self.slots = slots
        self.stop_ms = stop_ms
        self.clock_drift_ppm = clock_drift_ppm
        self.wall_skew_ms = wall_skew_ms
        self.anything_lossy = False
        self.processes: dict[str, Process] = {}
        self.everybody: list[Process] = []
        self.expected: set[str] = set()
        self.status = StatusTopic(on_hint=self._hint)
        self.computed: dict[tuple[GenerationId, MemberId], Computed] = {}
        self.checks = Checks(self)
        self.trials = Trials(self)
        self.lacking, self.culprits = Lacking(self), Culprits(self)
        self.steps = 0
        self.at_peace = False
        self.leaders_lost: Counter[str] = Counter()
        self.jobs = JobsTopic(stateful, stateful) if jobs is None else jobs
        self._watch: list[Callable[[], bool]] = []
        self._holders: dict[TaskId, list[Process]] = {}
        self._owners: dict[TaskId, list[Process]] = {}
        self._held_twice: set[TaskId] = set()
        self._owned_twice: set[TaskId] = set()
        self._started: dict[TaskId, Start] = {}
        self._uncounted: defaultdict[TaskId, list[int]] = defaultdict(list)
        self._formed = 0
        self._records_before = 0
        self._rounds_read = 0
        self._starts = 0
        self._story: deque[tuple[int, object]] = deque(maxlen=100_000)
        self._bounces: defaultdict[str, int] = defaultdict(int)

    @property
    def rounds(self) -> list[Round]:
        """The completed rounds, as the invariants see them."""
        return self.checks.rounds

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
        if not self.comes_to(condition, within_ms=within_ms):
            raise AssertionError(f"not so within {within_ms} ms\n{self.story()}")

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
            self.check()
        except Exception as failure:
            raise HistoryError(failure, self) from failure
        self.steps += more
        return more

    def look(self) -> None:
        """Time has passed: call the watchers."""

    def watch(self, strikes: Callable[[], bool]) -> None:
        """Call ``strikes`` after every step until it returns true."""
        self._watch.append(strikes)

    # ---- the story

    def note(self, line: object) -> None:
        """:param line: is only formatted if the story is shown"""
        self._story.append((self.clock.now, line))

    def story(self, last: int = 150) -> str:
        lines = [f"{at:8} {line}" for at, line in list(self._story)[-last:]]
        return f"seed {self.seed}, at {self.clock.now} ms:\n" + "\n".join(lines)

    # ---- workers

    def start(self, worker: str, *, predecessor: Predecessor | None = None, **changes: Any) -> Process:
        """A new process for this worker; an older one that still lives goes on beside it.

        :param predecessor: what the new process is told; None for the truth
        """
        known = self._predecessor(worker)
        process = self._process(worker, **changes)
        process.start(known if predecessor is None else predecessor)
        return process

    def _predecessor(self, worker: str) -> Predecessor:
        """The truth about earlier processes of this name, now that another one takes it."""
        namesakes = [old for old in self.everybody if old.worker == worker and old.alive]
        for old in namesakes:
            old.touched = True
        gone = all(old.state.phase.ended and not old.running for old in namesakes)
        return Predecessor.GONE if gone else Predecessor.UNKNOWN

    def _process(self, worker: str, *, forgetful: bool = False, **changes: Any) -> Process:
        self._bounces[worker] += 1
        rule = random.Random(f"{self.seed}/{worker}/{self._bounces[worker]}/learned").choice(self.learned)
        settings = replace(self.settings, worker=WorkerId(worker), learned=rule, **changes)
        process = Process(self, settings, worker + "'" * (self._bounces[worker] - 1), forgetful=forgetful)
        self.processes[worker] = process
        self.everybody.append(process)
        self.note(f"{process.name:8} ---- starts")
        return process

    def kill(self, worker: str) -> None:
        """SIGKILL: the coordinator is not told."""
        self.note(f"{self.processes[worker].name:8} ---- is killed")
        self.processes[worker].kill()

    def hand_over(self, worker: str) -> dict[str, Any]:
        self.note(f"{self.processes[worker].name:8} ---- saves its membership and ends")
        return self.processes[worker].hand_over()

    def go_on(self, worker: str, saved: dict[str, Any], *, touched: bool = True) -> Process:
        """:param touched: whether the group may have gone on without this worker, or with an answer that neither this
        process nor the one before it got
        """
        predecessor = self._predecessor(worker)
        before = self.processes[worker]
        process = self._process(worker, protocol=before.settings.protocol)
        process.touched = touched
        process.asked.go_on(before.asked)
        process.go_on(saved, predecessor)
        return process

    def make_peace(self) -> None:
        """The faults stop."""
        self.note("world    ---- the faults stop")
        self.at_peace = True
        self.trials.go_on()
        self.lacking.make_peace()
        self.warm_up_fails = 0.0
        self.network.faults.stop()
        self.coordinator_back()
        for process in self.everybody:
            process.reconnect()

    @property
    def coordinator_away(self) -> bool:
        return self._coordinator_away

    @coordinator_away.setter
    def coordinator_away(self, away: bool) -> None:
        self._coordinator_away = away
        self.anything_lossy |= away

    def coordinator_back(self) -> None:
        self.coordinator_away = False

    def hand_over_and_go_on(self, worker: str, gap_ms: int) -> None:
        """As between a task's process and the triggerer: for a while nobody sends heartbeats."""
        before = self.processes[worker]
        rebalancing = before.state.phase is not Phase.STABLE
        saved = self.hand_over(worker)
        touched = before.touched or rebalancing or gap_ms > self.settings.session_timeout_ms // 3

        def go_on() -> None:
            self.go_on(worker, saved, touched=touched)

        self.later(worker, gap_ms, go_on)

    def bounce(self, worker: str, back_ms: int, **changes: Any) -> None:
        """Killed, and back after a while."""
        self.kill(worker)
        self.later(worker, back_ms, lambda: self.start(worker, **changes))

    def later(self, worker: str, ms: int, comes: Callable[[], object]) -> None:
        """The worker comes back after a while."""
        self.expected.add(worker)

        def back() -> None:
            if worker in self.expected:
                self.expected.discard(worker)
                comes()

        self.clock.after(ms, back)

    def leave(self, worker: str, absence: Absence | None = None) -> None:
        """:param absence: what it says before about its absence; None if nothing"""
        self.processes[worker].leave(absence)

    def forget_group(self) -> None:
        """Kafka only deletes an empty group."""
        self.expected.clear()
        for process in self.members:
            process.kill()
        self.note("broker   ---- all workers are killed")
        self.run_until(lambda: not self.coordinator.members, within_ms=600_000)
        self.note("broker   ---- the group is deleted")
        self.coordinator.forget()
        self._formed += 1
        self._records_before = len(self.records)

    @property
    def live(self) -> dict[str, Process]:
        """The newest process of each worker, if it has not ended."""
        return {worker: process for worker, process in self.processes.items() if process.in_group}

    @property
    def members(self) -> list[Process]:
        """All processes in the group or on their way into it, also those whose name another has taken."""
        return [process for process in self.everybody if process.in_group]

    @property
    def staying(self) -> list[Process]:
        """Those members that still have their name, are not leaving, and were not asked to."""
        newest, leaving = self.live.values(), Phase.LEAVING
        return [each for each in newest if each.state.phase is not leaving and each.asked.wish is None]

    @property
    def leader(self) -> Process | None:
        """The leader's process, according to the coordinator."""
        process = self.processes.get(self.coordinator.leader or "")
        return process if process is not None and process.in_group and process.state.is_leader else None

    def running(self, worker: str) -> Tasks:
        return frozenset(self.processes[worker].running)

    # ---- the topics

    def configure(self, tasks: Iterable[TaskId]) -> None:
        """Write to the jobs topic, so that exactly these tasks are configured."""
        for task in sorted(self.jobs.configure(frozenset(tasks))):
            self.status.leave_out(task, self.jobs.newest)
        self._jobs_written()

    def plan_written(self, plan: PlanRecord) -> None:
        """A worker's plan has reached the jobs topic."""
        self.jobs.put_plan(plan)
        self._jobs_written()

    def _jobs_written(self) -> None:
        self.note(f"jobs     ---- offset {self.jobs.offset}: {len(self.jobs.written)} tasks are configured")
        self._tell_soon(lambda process: process.read_jobs(self.jobs.offset))

    def finish(self, task: TaskId) -> None:
        """A task finishes, wherever it runs."""
        for process in self.everybody:
            if task in process.running and process.alive and not process.asleep:
                process.tasks.finish(task)

    def plan_again(self, job: str) -> None:
        """The job's tasks get other configs, so that all of them run again."""
        self.jobs.plan_again(job)
        self._jobs_written()

    @property
    def configured(self) -> Tasks:
        """The wanted tasks, by everything that was written."""
        return configured(self.jobs.newest, self.status.snapshot().tasks)

    @property
    def record(self) -> ClassicRecord | None:
        return self.status.group

    @record.setter
    def record(self, record: ClassicRecord | None) -> None:
        self.status.group = record

    @property
    def record_is_current(self) -> bool:
        """Whether the last round's record can be read, and nothing delays the next one."""
        record, rounds = self.status.group, self.coordinator.rounds
        if record is None or not rounds or any(process.hushed for process in self.members):
            return False
        return record.is_round(rounds[-1].generation, rounds[-1].leader_member)

    @property
    def records(self) -> list[ClassicRecord]:
        return self.status.groups

    def group_written(self, record: ClassicRecord) -> None:
        """A group record has reached the status topic; its readers read it a while later."""
        if not self.status.put_group(record):
            self.note(f"status   ---- the record of epoch {record.epoch} comes too late")
            return
        self._tell_soon(Process.read_status)

    def worker_written(self, said: WorkerStatus) -> None:
        """A worker's own record has reached the status topic; those whose tasks it learns read it a while later."""
        known = self.status.snapshot().workers.get(said.worker)
        self.status.put_worker(said)
        if said.learning or (known is not None and known.learning):
            self._tell_soon(lambda process: process.when_awake(process.see_status))

    def task_written(self, word: TaskWord) -> None:
        """A worker's status of a task has reached the status topic."""
        known = self.status.tasks.get(word.status.task)
        wins = self.status.put_task(word)
        invariants.a_stale_epoch_never_wins(known, word, self._uncounted[word.status.task], wins=wins)

    def _hint(self) -> None:
        """A record hints at a rebalance."""
        self._tell_soon(Process.hear_hint)

    def _tell_soon(self, reads: Callable[[Process], None]) -> None:
        for process in self.everybody:
            if process.alive:
                self.clock.after(self.network.latency(process.rng), partial(reads, process))

    # ---- what must hold

    def owns(self, process: Process, before: Tasks, after: Tasks) -> None:
        """A member's owned tasks have changed."""
        for task in after - before:
            owners = self._owners.setdefault(task, [])
            owners.append(process)
            if len(owners) > 1:
                self._owned_twice.add(task)
        for task in before - after:
            owners = self._owners[task]
            owners.remove(process)
            if len(owners) < 2:
                self._owned_twice.discard(task)

    def starts(self, process: Process, task: TaskId, epoch: Epoch) -> int:
        """A process starts a task.

        :return: the number of this start
        """
        holders = self._holders.setdefault(task, [])
        invariants.a_task_is_started_only_after_it_was_stopped_or_its_lease_was_over(process, task, holders)
        start = Start(
            worker=process.worker,
            epoch=epoch,
            generation=process.state.last_completed,
            leader_member=process.state.last_leader,
            formed=self._formed,
            counted=not self._formed or len(self.records) > self._records_before,
        )
        before = self._started.get(task)
        invariants.a_task_goes_to_another_worker_with_a_higher_epoch(task, before, start, self.records)
        if before is not None and not start.counts_on_from(before, self.records):
            self._uncounted[task].append(self._starts + 1)
        self._started[task] = start
        holders.append(process)
        if len(holders) > 1:
            self._held_twice.add(task)
        self._starts += 1
        return self._starts

    def ends(self, process: Process, task: TaskId) -> None:
        """A task no longer runs in a process."""
        holders = self._holders[task]
        holders.remove(process)
        if len(holders) < 2:
            self._held_twice.discard(task)

    def check(self) -> None:
        """Check the rules that a step may have broken."""
        for task in self._held_twice:
            holders = self._holders[task]
            invariants.no_two_copies_run_at_once(task, holders)
            invariants.a_fence_raises_for_every_holder_that_is_not_current(task, holders)
        for task in self._owned_twice:
            invariants.no_two_current_members_own_a_task(task, self._owners[task])
        while self._rounds_read < len(self.coordinator.rounds):
            seen = self.coordinator.rounds[self._rounds_read]
            self._rounds_read += 1
            computed = self.computed.get((seen.generation, seen.leader_member))
            if computed is not None:
                self.checks.take(read_round(seen, computed))
        if self._watch:
            self._watch = [strikes for strikes in self._watch if not strikes()]

    def check_at_rest(self) -> None:
        """In a settled group, a while after its last round."""
        self.checks.at_rest()

    @property
    def settled(self) -> bool:
        """Every configured task runs once, or waits as no slot is free; the group is stable, nothing stops and no delay
        runs.
        """
        return is_settled(self)
