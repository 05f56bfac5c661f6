"""What may happen next in a world. So here is what an exploration covers, and what it does not.

Without a fault: what is under way arrives, in any order; timers that are due fire, in any order among themselves and
with what arrives; who has not read the group record does; a worker starts that has no process; who is paused wakes. Who
learns a task gets ready for it, and its owner hears of that, at any time or not before it joins.
Time passes when nothing is under way any more that has to arrive, and nothing is due: up to the next time for which
somebody waits. So messages take no time, or get lost, or are late; and timers fire in the order of their times. A
paused process misses its own while those of the others fire, for as long as it likes.

Covered, for the workers, tasks and faults of a scope: each order of all that; each message lost (its sender notices at
once, or when the request's time is over) or late (arriving any time after, up to that); a crash, a pause, a leave, or a
second process under a worker's name at each moment.

Not covered: other proportions of times than those of ``values.SETTINGS``; clocks that differ; answers that come twice;
a coordinator that moves or forgets the group; eager groups and other policies than a delay; jobs that change, tasks
that finish, and so the leader's look for new work; a membership that is handed over; learners that fail or take
too long, and workers that leave soon.
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

from airflow_provider.membership.events import (
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
from airflow_provider.membership.state import Phase
from airflow_provider.protocol.holding import Predecessor
from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks


class Kind(str, Enum):
    WAKES = "wakes"
    ARRIVES = "arrives"
    READS = "reads"
    TIMER = "timer"
    READY = "gets ready"
    HEARS = "hears who is ready"
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
"""What happens sooner or later if nobody does anything."""


class Move(NamedTuple):
    """Something that may happen.

    :param mark: the process; of a group's timer, its name
    :param flight: what arrives or does not
    :param ms: how much time passes
    :param task: for which it gets ready
    """

    kind: Kind
    mark: str = ""
    flight: Node | None = None
    ms: int = 0
    task: TaskId | None = None
    predecessor: Predecessor = Predecessor.UNKNOWN


def moves(world: World, scope: Scope) -> Iterator[Move]:
    """All that may happen next. What happens by itself comes first: to go on with that is a fair course of things."""
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
    """How often each fault may still strike after this one has."""
    at = _POSITION[FAULTS[kind]]
    return (*left[:at], left[at] - 1, *left[at + 1 :])


_AT_ANY_TIME = frozenset({Kind.WAKES, Kind.READY, Kind.HEARS})


def _blocks(move: Move) -> bool:
    """Whether time can't pass before this has happened."""
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
    """What of its own the status topic says that others are ready for."""
    said = (tasks for worker, (_, tasks) in topics.ready.items() if worker != process.worker)
    return process.state.lessons.learned & NO_TASKS.union(*said)


def _awake(world: World) -> dict[str, Process]:
    return {node.value.mark: node.value for node in world.processes if not node.value.paused}


_BY_NETWORK = frozenset({Way.REQUEST, Way.WRITE})
"""Goes on its way whatever its process does."""


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
    """Where the record knows a worker, its next process may know what became of the one before, or not."""
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
    """What comes to the one who waits for the answer."""
    request = request_of(flight)
    at = NOW if noticed else NOW + TIMEOUTS_MS[request]
    event = RequestFailed(now_ms=NOW, seq=flight.seq, request=request, cause="lost")
    return Flight(Way.ANSWER, flight.mark, flight.seq, event, opens=at, due=at)


def late(flight: Flight) -> Flight:
    """The same, and it may arrive at any time from now on. An answer comes before the time of its request is over, and
    what is told to stop stops within the lease's margin.
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
    """The request that it is, or is answered by it."""
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
