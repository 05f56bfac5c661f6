"""A process of the exploration: the product's member machine handles an event, and a driver executes its commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from explore.values import (
    AFTER,
    AWAITED,
    BEFORE,
    NOW,
    OFFSET,
    Attempt,
    Flight,
    Frozen,
    Held,
    Join,
    Process,
    Said,
    Scope,
    Sync,
    Topics,
    Way,
    frozen,
)

from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.leader.leader_input import Call
from airflow_provider.group.classic.member.events import (
    AssignmentComputed,
    FindCoordinator,
    PerformAssignment,
    PublishGroup,
    RecordRead,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
)
from airflow_provider.group.classic.member.member import handle
from airflow_provider.group.classic.member.state import StateChanges
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import (
    ArmTimer,
    Command,
    Event,
    PublishAssignment,
    StartTasks,
    StopTasks,
    TasksStopped,
)
from airflow_provider.spark.job import FencedError
from airflow_provider.state.rounds.classic import ClassicRecord, newer
from airflow_provider.state.rounds.unchanged_rounds import hold_back_ms
from airflow_provider.values.model import UNKNOWN_MEMBER_ID, Epoch, TaskId, Tasks, WorkerId
from airflow_provider.worker.lease import WorkerLease

NOTHING_SAID = Said()


class TimerLostError(AssertionError):
    """Something is due in the machine, and it has set no timer for it."""


class Reaction(NamedTuple):
    """A process's reaction to an event.

    :param sent: the flights that it sends
    :param spoken: the highest epoch in which it has written
    :param started: the tasks that it starts, with their epochs
    :param asks_anew: whether it no longer waits for the answer that it waited for
    """

    process: Process
    sent: tuple[Flight, ...] = ()
    spoken: Epoch = Epoch(0)
    started: tuple[tuple[TaskId, Epoch], ...] = ()
    commands: tuple[Command, ...] = ()
    asks_anew: bool = False


def react(process: Process, *events: Event, last: ClassicRecord | None = None, said: Said = NOTHING_SAID) -> Reaction:
    """Handle the events one after the other.

    :param last: the newest record that the leader knew when it computed an assignment
    :param said: what it knew about tasks
    """
    before = process.state
    state, commands = before, list[Command]()
    for event in events:
        state, more = handle(state, event)
        state.validate()
        commands += more
    _check_timer(state.next_deadline(), before.next_deadline(), commands)
    asks_anew = before.awaiting is not None and state.awaiting != AWAITED
    driver = _Driver(process._replace(state=state), last, said)
    for command in commands:
        driver.execute(command)
    reaction = driver.reaction(commands, asks_anew=asks_anew)
    return reaction._replace(process=_recovered(_numbered(reaction.process)))


def _check_timer(due: int | None, asked: int | None, commands: Iterable[Command]) -> None:
    for command in commands:
        if isinstance(command, ArmTimer):
            asked = command.at_ms
    if due is not None and asked != due:
        raise TimerLostError(f"something is due at {due - NOW:+}, and the timer was asked for at {asked}")


def _numbered(process: Process) -> Process:
    """The process with its requests numbered from the start again, and exactly the timer that it needs."""
    state = process.state
    changes: StateChanges = {"seq": AFTER, "armed_at": state.next_deadline()}
    if state.awaiting is not None:
        changes["awaiting"] = AWAITED
    return process._replace(state=state.changed(changes))


def _recovered(process: Process) -> Process:
    """A process that slept counts as any other once it has a lease that it can't overrun."""
    if not process.overslept:
        return process
    state = process.state
    safe = state.lease_until is not None and state.lease_until - state.settings.lease_margin_ms > NOW
    return process._replace(overslept=bool(process.running) and not safe)


class _Driver:
    """Stands for ``group/live/classic/classic_member.py`` and the worker of a real membership."""

    def __init__(self, process: Process, last: ClassicRecord | None, said: Said) -> None:
        self._process = process
        self._last = last
        self._said = said
        self._sent: list[Flight] = []
        self._spoken = Epoch(0)
        self._started: list[tuple[TaskId, Epoch]] = []

    def reaction(self, commands: list[Command], *, asks_anew: bool) -> Reaction:
        return Reaction(
            self._process, tuple(self._sent), self._spoken, tuple(self._started), tuple(commands), asks_anew
        )

    def execute(self, command: Command) -> None:
        match command:
            case StartTasks():
                self._start(command.tasks, command.epoch)
            case StopTasks():
                self._stop(command)
            case PublishAssignment():
                self._spoken = max(self._spoken, command.epoch)
            case PublishGroup():
                self._send(Way.WRITE, AWAITED, frozen(command.record))
            case PerformAssignment():
                self._send(Way.COMPUTE, self._rank(command.seq), replace(command, seq=AWAITED))
            case FindCoordinator():
                self._send(Way.FIND, self._rank(command.seq), None)
            case SendHeartbeat():
                self._send(Way.REQUEST, self._rank(command.seq), replace(command, seq=BEFORE), sent_at=NOW)
            case SendJoin() | SendSync() | SendLeave():
                self._send(Way.REQUEST, AWAITED, self._with_its_reasons(replace(command, seq=AWAITED)))
            case _:
                pass

    def _with_its_reasons(self, command: SendJoin | SendSync | SendLeave) -> Join | Sync | SendLeave:
        state = self._process.state
        if isinstance(command, SendSync):
            command = replace(command, assignments=Frozen(command.assignments))
            return Sync(command, state.unpublished, self._last, self._said)
        if isinstance(command, SendJoin):
            alone = command.member_id != UNKNOWN_MEMBER_ID or state.predecessor is Predecessor.GONE
            return Join(command, alone, None if alone else state.record)
        return command

    def _send(self, way: Way, seq: int, what: Any, sent_at: int | None = None) -> None:
        self._sent.append(Flight(way, self._process.mark, seq, what, sent_at))

    def _rank(self, seq: int) -> int:
        awaiting = self._process.state.awaiting
        if awaiting is None or seq < awaiting:
            return BEFORE
        return AWAITED if seq == awaiting else AFTER

    def _start(self, tasks: Tasks, epoch: Epoch) -> None:
        process = self._process
        assert not tasks & process.tasks, f"{process.mark} starts {tasks & process.tasks}, which it runs"
        self._process = process._replace(running=tuple(sorted((*process.running, *map(Attempt, tasks)))))
        self._started += [(task, epoch) for task in sorted(tasks)]
        self._spoken = max(self._spoken, epoch)

    def _stop(self, command: StopTasks) -> None:
        process = self._process
        if command.reason.ends_lease:
            ended = tuple(attempt._replace(granted=False) for attempt in process.running)
            self._process = process._replace(running=ended)
        self._send(Way.STOP, BEFORE, command.tasks)


# ---- events of a process


def stopped(process: Process, tasks: Tasks) -> Reaction:
    """The tasks that were told to stop have stopped."""
    left = tuple(attempt for attempt in process.running if attempt.task not in tasks)
    return react(process._replace(running=left), TasksStopped(now_ms=NOW, tasks=tasks))


def read_record(record: ClassicRecord) -> RecordRead:
    return RecordRead(now_ms=NOW, record=record, age_ms=NOW - record.at_ms)


def computed(
    process: Process,
    command: PerformAssignment,
    *,
    topics: Topics,
    scope: Scope,
) -> Reaction:
    """A leader reads the status topic to its end and assigns. After rounds for nothing it holds this back a while."""
    record, said = topics.record, topics.said
    news = [read_record(record)] if process.unread and record is not None else []
    last = newer(command.last_record, record)
    answer = lead(
        Call(
            generation=command.generation,
            protocol=command.protocol,
            leader=command.leader,
            last_completed=command.last_completed,
            members=command.members,
            configured=scope.configured,
            config_offset=OFFSET,
            last_record=last,
            policy=scope.policy,
            now_ms=NOW,
            reason=command.reason,
            spoken_epoch=max(topics.spoken_epoch, command.epoch),
            revocation_rank=dict.fromkeys(said.started, 1),
            stateful=scope.stateful,
            ready=said.ready_as({WorkerId(member.instance_id or ""): member.member_id for member in command.members}),
            named=frozenset(WorkerId(member.instance_id or "") for member in command.members),
        )
    )
    done = AssignmentComputed(
        now_ms=NOW,
        seq=AWAITED,
        assignments=answer.assignments,
        record=None if answer.record is None else frozen(answer.record),
    )
    held_ms = (
        0 if done.record is None else hold_back_ms(done.record.unchanged, process.state.settings.session_timeout_ms)
    )
    process = process._replace(unread=False)
    if not held_ms:
        return react(process, *news, done, last=last, said=said)
    reaction = react(process, *news)
    held = Flight(Way.HOLD, process.mark, AWAITED, Held(done, last, said), opens=NOW + held_ms, due=NOW + held_ms)
    return reaction._replace(sent=(*reaction.sent, held))


def may_write(process: Process, attempt: Attempt) -> bool:
    """Whether the attempt's fence lets it write now."""
    lease = WorkerLease(lambda: process.state.lease_until, lambda: NOW)
    try:
        lease.check(lease.grant if attempt.granted else lease.grant - 1)
    except FencedError:
        return False
    return True


def runs(process: Process, attempt: Attempt) -> bool:
    """Whether the task really runs now. In a process that woke from a pause it may run until it has stopped, but its
    fence keeps it from writing: that does not count.
    """
    return not process.paused and (not process.overslept or may_write(process, attempt))
