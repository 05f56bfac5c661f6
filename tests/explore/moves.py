"""What may happen next in a world: this defines what an exploration covers.

Without a fault: flights arrive in any order; due timers fire in any order among themselves and with arrivals; processes
read a new group record; workers without a process start; paused processes wake. A learner gets ready for its task, and
the owner learns of it, at any time or not before it joins.
Time passes when no flight has to arrive first and nothing is due: up to the next time for which somebody waits. So
messages take no time, or are lost or late; and timers fire in the order of their times. A paused process misses its own
timers while those of others fire, for any length of time.

Covered, for the workers, tasks and faults of a scope: all orders of these events; each message lost (its sender notices
at once, or at the request's timeout) or late (arriving at any time before the timeout); a crash, a pause, a leave, or a
second process under a worker's name at each moment.

Not covered: other ratios of times than in ``values.SETTINGS``; clocks that differ; duplicate answers; a coordinator
that moves or forgets the group; eager groups, and policies other than a delay; changing jobs and finishing tasks, so
also the leader's watch for new work; hand-overs of a membership; learners that fail or take too long; workers that
leave soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from explore import coordinator
from explore.normal import Node, World
from explore.values import (
    HEARTBEAT_TIMEOUT_MS,
    NOW,
    REQUEST_TIMEOUT_MS,
    ROUND_TIMEOUT_MS,
    SETTINGS,
    TICK,
    Fault,
    Flight,
    Join,
    Process,
    Scope,
    Sync,
    Topics,
    Way,
    is_heard,
)

from airflow_provider.group.classic.member.events import (
    HeartbeatAnswered,
    Joined,
    Left,
    Request,
    RequestFailed,
    RequestRejected,
    SendHeartbeat,
    SendLeave,
    Synced,
)
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks


class Kind(str, Enum):
    WAKES = "wakes"
    ARRIVES = "arrives"
    READS = "reads"
    TIMER = "timer"
    READY = "gets ready"
    HEARS = "reads who is ready"
    GROUP_TIMER = "the group's timer"
    TIME = "time passes"
    STARTS = "starts"
    LOST = "is lost"
    LOST_UNNOTICED = "is lost, unnoticed"
    LATE = "is late"
    CRASHES = "crashes"
    PAUSED = "is paused"
    TAKEN_OVER = "is taken over"
    LEAVES = "leaves"


FAULTS = {
    Kind.LOST: Fault.LOSS,
    Kind.LOST_UNNOTICED: Fault.LOSS,
    Kind.LATE: Fault.LATE,
    Kind.CRASHES: Fault.CRASH,
    Kind.PAUSED: Fault.PAUSE,
    Kind.TAKEN_OVER: Fault.TAKEOVER,
    Kind.LEAVES: Fault.LEAVE,
}
BY_ITSELF = frozenset(Kind) - FAULTS.keys() - {Kind.STARTS}
"""Moves that happen sooner or later by themselves."""


class Move(NamedTuple):
    """Something that may happen.

    :param mark: the process; of a group's timer, its name
    :param flight: what arrives or does not
    :param ms: how much time passes
    :param task: the one it gets ready for
    """

    kind: Kind
    mark: str = ""
    flight: Node | None = None
    ms: int = 0
    task: TaskId | None = None
    predecessor: Predecessor = Predecessor.UNKNOWN


def moves(world: World, scope: Scope) -> Iterator[Move]:
    """All moves. Those that happen by themselves come first: always taking the first one is a fair schedule."""
    waits = False
    for move in _by_itself(world):
        waits = waits or _blocks(move)
        yield move
    if not waits:
        yield from _time(world)
    yield from _starts(world, scope)
    if any(world.left):
        yield from (move for move in _faults(world) if world.left[_POSITION[FAULTS[move.kind]]])


_POSITION = {fault: position for position, fault in enumerate(Fault)}


def left_after(left: tuple[int, ...], kind: Kind) -> tuple[int, ...]:
    """How often each fault may still strike after this one."""
    at = _POSITION[FAULTS[kind]]
    return (*left[:at], left[at] - 1, *left[at + 1 :])


_AT_ANY_TIME = frozenset({Kind.WAKES, Kind.READY, Kind.HEARS})


def _blocks(move: Move) -> bool:
    """Whether this move must happen before time passes."""
    return move.kind not in _AT_ANY_TIME and (move.flight is None or move.flight.value.due <= NOW)


def _by_itself(world: World) -> Iterator[Move]:
    awake = _awake(world)
    yield from (Move(Kind.WAKES, node.value.mark) for node in world.processes if node.value.paused)
    for node in dict.fromkeys(world.flights):
        flight: Flight = node.value
        if flight.opens <= NOW and (flight.way in _BY_NETWORK or flight.mark in awake):
            yield Move(Kind.ARRIVES, flight.mark, node)
    yield from (Move(Kind.READS, mark) for mark, process in awake.items() if process.unread)
    for mark, process in awake.items():
        due = process.state.next_deadline()
        if due is not None and due <= NOW:
            yield Move(Kind.TIMER, mark)
    for at, name in coordinator.timers(world.group.value):
        if at <= NOW:
            yield Move(Kind.GROUP_TIMER, name)
    for mark, process in awake.items():
        lessons, ready_from = process.state.lessons, process.state.settings.ready_from
        for task in sorted(lessons.learning - lessons.ready(ready_from)):
            yield Move(Kind.READY, mark, task=task)
        if ready_for(process, world.topics.value) != lessons.known_ready:
            yield Move(Kind.HEARS, mark)


def ready_for(process: Process, topics: Topics) -> Tasks:
    """The tasks of this owner for which others are ready, by the status topic."""
    said = (tasks for worker, (_, tasks) in topics.ready.items() if worker != process.worker)
    return process.state.lessons.learned & NO_TASKS.union(*said)


def _awake(world: World) -> dict[str, Process]:
    return {node.value.mark: node.value for node in world.processes if not node.value.paused}


_BY_NETWORK = frozenset({Way.REQUEST, Way.WRITE})
"""The flights that go on whatever their process does."""


def _time(world: World) -> Iterator[Move]:
    awake = _awake(world)
    times = [process.state.next_deadline() for process in awake.values()]
    times += [flight.value.due for flight in world.flights if _is_carried(flight.value, awake)]
    times += [at for at, _ in coordinator.timers(world.group.value)]
    due = min((at for at in times if at is not None), default=None)
    if due is not None:
        yield Move(Kind.TIME, ms=-(-(due - NOW) // TICK) * TICK)


def _is_carried(flight: Flight, awake: dict[str, Process]) -> bool:
    return flight.way in _BY_NETWORK or flight.mark in awake


def _starts(world: World, scope: Scope) -> Iterator[Move]:
    """If the record has the worker, its next process may or may not know what became of the one before."""
    present = {node.value.worker for node in world.processes}
    record = world.topics.value.record
    for worker in scope.names:
        if worker not in present:
            yield Move(Kind.STARTS, worker, predecessor=Predecessor.GONE)
            if record is not None and worker in record.members:
                yield Move(Kind.STARTS, worker, predecessor=Predecessor.UNKNOWN)


# ---- faults


def _faults(world: World) -> Iterator[Move]:
    for node in dict.fromkeys(world.flights):
        flight = node.value
        for kind in _accidents(flight):
            yield Move(kind, flight.mark, node)
    marks = {node.value.mark for node in world.processes}
    for node in world.processes:
        process: Process = node.value
        state = process.state
        if state.phase.ended:
            continue
        yield Move(Kind.CRASHES, process.mark)
        if not {process.worker, f"{process.worker}'"} <= marks:
            yield Move(Kind.TAKEN_OVER, process.mark)
        if process.paused:
            continue
        yield Move(Kind.PAUSED, process.mark)
        if state.phase is not Phase.LEAVING:
            yield Move(Kind.LEAVES, process.mark)


def _accidents(flight: Flight) -> Iterator[Kind]:
    if flight.due > NOW or isinstance(flight.what, RequestFailed):
        return
    if flight.way in (Way.REQUEST, Way.ANSWER, Way.FIND, Way.COMPUTE):
        yield Kind.LOST
        if flight.way is not Way.COMPUTE and is_heard(flight.mark):
            yield Kind.LOST_UNNOTICED
    if flight.way is not Way.FIND:
        yield Kind.LATE


def failed(flight: Flight, *, noticed: bool) -> Flight:
    """What the waiting process gets instead of the answer."""
    request = request_of(flight)
    at = NOW if noticed else NOW + TIMEOUTS_MS[request]
    event = RequestFailed(now_ms=NOW, seq=flight.seq, request=request, cause="lost")
    return Flight(Way.ANSWER, flight.mark, flight.seq, event, opens=at, due=at)


def late(flight: Flight) -> Flight:
    """The same flight, which may arrive at any time from now on: an answer before its request's timeout, a stop within
    the lease's margin.
    """
    if flight.way is Way.STOP:
        return flight._replace(due=NOW + SETTINGS.lease_margin_ms)
    if flight.way is Way.ANSWER:
        return flight._replace(due=NOW + TIMEOUTS_MS[request_of(flight)])
    if flight.way is Way.WRITE:
        return flight._replace(due=NOW + ROUND_TIMEOUT_MS)
    return flight._replace(due=NOW + REQUEST_TIMEOUT_MS)


TIMEOUTS_MS = {
    Request.FIND_COORDINATOR: REQUEST_TIMEOUT_MS,
    Request.JOIN: ROUND_TIMEOUT_MS,
    Request.SYNC: ROUND_TIMEOUT_MS,
    Request.HEARTBEAT: HEARTBEAT_TIMEOUT_MS,
    Request.LEAVE: REQUEST_TIMEOUT_MS,
}


def request_of(flight: Flight) -> Request:
    """The request that this flight is or answers."""
    if flight.way is Way.FIND:
        return Request.FIND_COORDINATOR
    if flight.way is Way.COMPUTE:
        return Request.SYNC
    what = flight.what
    return what.request if isinstance(what, (RequestRejected, RequestFailed)) else _REQUESTS[type(what)]


_REQUESTS = {
    Join: Request.JOIN,
    Sync: Request.SYNC,
    SendHeartbeat: Request.HEARTBEAT,
    SendLeave: Request.LEAVE,
    Joined: Request.JOIN,
    Synced: Request.SYNC,
    HeartbeatAnswered: Request.HEARTBEAT,
    Left: Request.LEAVE,
}
