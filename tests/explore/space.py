"""The step from one world to the next: what a move does, and the rules that it must keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from explore import coordinator, rules
from explore.group import Group
from explore.moves import FAULTS, Kind, Move, failed, late, left_after, moves, ready_for
from explore.normal import Node, Nodes, World, fresh_id
from explore.process import Reaction, computed, react, read_record, stopped
from explore.rebalance import Taken
from explore.silence import without_process, without_waiting
from explore.values import (
    AWAITED,
    NOW,
    OFFSET,
    Flight,
    Frozen,
    Held,
    Join,
    Process,
    Scope,
    Start,
    Sync,
    Topics,
    Way,
    is_heard,
    worker_of,
)

from airflow_provider.assignment.learners.model import READY
from airflow_provider.group.classic.member.events import CoordinatorFound, LearnersReady, LearningProgressed, Started
from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import Event, LeaveRequested, TimerFired
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import WorkerId

TIMER = TimerFired(now_ms=NOW)
LEAVE = LeaveRequested(now_ms=NOW, reason="told to")
FOUND = CoordinatorFound(now_ms=NOW, seq=AWAITED, node=1)


class Space:
    """All worlds of a scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.nodes = Nodes()
        self._budget = scope.budget

    def beginning(self) -> World:
        world = World((), self.nodes.of(Group()), (), self.nodes.of(Topics()), self.scope.budget)
        if self.scope.begun:
            for worker in self.scope.names[: self.scope.begun]:
                world = self.after(world, Move(Kind.STARTS, worker, predecessor=Predecessor.GONE))
            while not rules.at_rest(world, self.scope):
                world = self.after(world, next(moves(world, self.scope)))
        return world

    def normal(self, world: World) -> World:
        return self.nodes.normal(world)

    def after(self, world: World, move: Move) -> World:
        """:raises AssertionError: if it breaks a rule"""
        if move.kind in FAULTS:
            world = world._replace(left=left_after(world.left, move.kind))
        world = _MOVES[move.kind](self, world, move)
        rules.check_world(world)
        return world

    # ---- flights

    def arrives(self, world: World, move: Move) -> World:
        assert move.flight is not None
        node, flight = move.flight, move.flight.value
        world = _without(world, node)
        if flight.way is Way.REQUEST:
            return self._request(world, node)
        if flight.way is Way.WRITE:
            return self._written(world, flight.what)
        process = world.process(flight.mark)
        assert process is not None
        if flight.way is Way.COMPUTE:
            return self._reacts(
                world, process, (node, world.topics), lambda: self._computed(world, process.value, flight)
            )
        if flight.way is Way.STOP:
            return self._reacts(world, process, node, lambda: stopped(process.value, flight.what))
        if flight.way is Way.HOLD:
            held: Held = flight.what
            return self._reacts(
                world, process, node, lambda: react(process.value, held.event, last=held.last, said=held.said)
            )
        event: Event = FOUND if flight.way is Way.FIND else flight.what
        return self._reacts(world, process, node, lambda: react(process.value, event))

    def _request(self, world: World, node: Node) -> World:
        flight: Flight = node.value
        fresh = fresh_id(world, worker_of(flight.mark))
        made = world.group.made
        taken = made.get((node, fresh))
        if taken is None:
            taken = made[node, fresh] = coordinator.take(world.group.value, flight, fresh)
        if isinstance(flight.what, Join) and not flight.what.alone:
            world = self._spoken_for(world, flight)
        if taken.stored is not None:
            sync: Sync = flight.what
            rules.check_round(world, sync, self.scope)
            topics: Topics = world.topics.value
            world = world._replace(topics=self.nodes.of(topics._replace(stored=taken.stored)))
        return self._taken(world, taken)

    def _spoken_for(self, world: World, flight: Flight) -> World:
        """A process takes over a name. It reports the tasks of the older process from the newest record it has read."""
        stored, known = world.topics.value.stored, flight.what.last
        if stored is None or (known is not None and known.is_round(stored.generation, stored.leader_member)):
            return world
        for node in world.processes:
            if node.value.mark != flight.mark and node.value.worker == worker_of(flight.mark):
                world = self._put(world, node, node.value._replace(unspoken_for=True))
        return world

    def _taken(self, world: World, taken: Taken) -> World:
        return self._with_flights(world, taken.answers)._replace(group=self.nodes.of(taken.group))

    def _with_flights(self, world: World, flights: tuple[Flight, ...]) -> World:
        return world._replace(flights=(*world.flights, *map(self.nodes.of, flights)))

    def _computed(self, world: World, process: Process, flight: Flight) -> Reaction:
        return computed(process, flight.what, topics=world.topics.value, scope=self.scope)

    def _written(self, world: World, record: ClassicRecord) -> World:
        """By the rule of the product's reader: an older epoch never wins, and of two rounds in one epoch the first
        wins.
        """
        topics: Topics = world.topics.value
        known = topics.record
        stale = known is not None and (
            record.epoch < known.epoch
            or (record.epoch == known.epoch and not record.is_round(known.generation, known.leader_member))
        )
        if stale or record == known:
            return world
        processes = tuple(self.nodes.of(node.value._replace(unread=True)) for node in world.processes)
        return world._replace(topics=self.nodes.of(topics._replace(record=record)), processes=processes)

    def is_lost(self, world: World, move: Move) -> World:
        assert move.flight is not None
        world, flight = _without(world, move.flight), move.flight.value
        if not is_heard(flight.mark):
            return world
        return self._with_flights(world, (failed(flight, noticed=move.kind is Kind.LOST),))

    def is_late(self, world: World, move: Move) -> World:
        assert move.flight is not None
        return self._with_flights(_without(world, move.flight), (late(move.flight.value),))

    # ---- processes

    def starts(self, world: World, move: Move) -> World:
        """A process of a worker starts and reads the topics."""
        worker = worker_of(move.mark)
        taken = {node.value.mark for node in world.processes}
        mark = worker if worker not in taken else f"{worker}'"
        predecessor = Predecessor.UNKNOWN if move.kind is Kind.TAKEN_OVER else move.predecessor
        process = Process(mark, MemberState(settings=replace(self.scope.settings, worker=WorkerId(worker))))
        events: list[Event] = [Started(now_ms=NOW, config_offset=OFFSET, predecessor=predecessor)]
        record = world.topics.value.record
        if record is not None:
            events.append(read_record(record))
        node = self.nodes.of(process)
        processes = tuple(sorted((*world.processes, node), key=lambda node: node.value.mark))
        world = world._replace(processes=processes)
        return self._reacts(world, node, (world.topics, predecessor), lambda: react(process, *events))

    def reads(self, world: World, move: Move) -> World:
        node = self._process(world, move)
        record = world.topics.value.record
        process = node.value._replace(unread=False)
        return self._reacts(world, node, ("reads", world.topics), lambda: react(process, read_record(record)))

    def gets_ready(self, world: World, move: Move) -> World:
        assert move.task is not None
        node = self._process(world, move)
        ready = LearningProgressed(now_ms=NOW, progress={move.task: READY})
        return self._reacts(world, node, ("ready", move.task), lambda: react(node.value, ready))

    def hears(self, world: World, move: Move) -> World:
        """An owner reads in the status topic which tasks others are ready for."""
        node = self._process(world, move)
        heard = LearnersReady(now_ms=NOW, tasks=ready_for(node.value, world.topics.value))
        return self._reacts(world, node, ("hears", heard.tasks), lambda: react(node.value, heard))

    def timer(self, world: World, move: Move) -> World:
        node = self._process(world, move)
        return self._reacts(world, node, "timer", lambda: react(node.value, TIMER))

    def leaves(self, world: World, move: Move) -> World:
        node = self._process(world, move)
        return self._reacts(world, node, "leaves", lambda: react(node.value, LEAVE))

    def crashes(self, world: World, move: Move) -> World:
        return without_process(world, self.nodes, move.mark, killed=True)

    def is_paused(self, world: World, move: Move) -> World:
        node = self._process(world, move)
        return self._put(world, node, node.value._replace(paused=True, overslept=True))

    def wakes(self, world: World, move: Move) -> World:
        node = self._process(world, move)
        return self._put(world, node, node.value._replace(paused=False))

    # ---- time

    def group_timer(self, world: World, move: Move) -> World:
        return self._taken(world, coordinator.fire(world.group.value, move.mark))

    def time_passes(self, world: World, move: Move) -> World:
        later, ms = self.nodes.later, move.ms
        return World(
            tuple([later(node, ms) for node in world.processes]),
            later(world.group, ms),
            tuple([later(node, ms) for node in world.flights]),
            later(world.topics, ms),
            world.left,
        )

    # ---- how a process's reaction changes the world

    def _process(self, world: World, move: Move) -> Node:
        node = world.process(move.mark)
        assert node is not None
        return node

    def _put(self, world: World, old: Node, process: Process) -> World:
        node = self.nodes.of(process)
        return world._replace(processes=tuple([node if each is old else each for each in world.processes]))

    def _reacts(self, world: World, node: Node, to: Any, make: Callable[[], Reaction]) -> World:
        """:param to: the event; reactions are cached by process and event"""
        reaction: Reaction | None = node.made.get(to)
        if reaction is None:
            reaction = node.made[to] = make()
            rules.check_reaction(node.value, reaction)
        if world.left == self._budget:
            rules.check_untouched(reaction)
        process = reaction.process
        ended = process.state.phase.ended
        gone = ended and not process.running
        for task, epoch in reaction.started:
            world = self._started(world, node, Start(task, epoch, process.worker))
        if gone:
            world = without_process(world, self.nodes, process.mark, killed=False)
        else:
            world = self._put(world, node, process)
            if ended or reaction.asks_anew:
                world = without_waiting(world, self.nodes, process.mark, ended=ended)
        topics: Topics = world.topics.value
        ready = _with_word(topics.ready, process.state)
        if reaction.spoken > topics.spoken_epoch or ready != topics.ready:
            spoken = max(reaction.spoken, topics.spoken_epoch)
            world = world._replace(topics=self.nodes.of(topics._replace(spoken_epoch=spoken, ready=ready)))
        return self._with_flights(world, reaction.sent) if reaction.sent else world

    def _started(self, world: World, node: Node, start: Start) -> World:
        rules.check_start(world, node.value, start)
        topics: Topics = world.topics.value
        starts = tuple(sorted((*(other for other in topics.starts if other.task != start.task), start)))
        for other in world.processes:
            if other is not node and start.task in other.value.tasks:
                attempts = tuple(
                    attempt._replace(followed=attempt.followed or attempt.task == start.task)
                    for attempt in other.value.running
                )
                world = self._put(world, other, other.value._replace(running=attempts))
        return world._replace(topics=self.nodes.of(topics._replace(starts=starts)))


def _with_word(ready: Frozen, state: MemberState) -> Frozen:
    """The tasks that workers are ready for, with the latest report of one."""
    others = {worker: word for worker, word in ready.items() if worker != state.settings.worker}
    own = state.lessons.ready(state.settings.ready_from)
    return Frozen({**others, state.settings.worker: (state.member_id, own)} if own else others)


def _without(world: World, node: Node) -> World:
    at = world.flights.index(node)
    return world._replace(flights=(*world.flights[:at], *world.flights[at + 1 :]))


_MOVES: dict[Kind, Callable[[Space, World, Move], World]] = {
    Kind.WAKES: Space.wakes,
    Kind.ARRIVES: Space.arrives,
    Kind.READS: Space.reads,
    Kind.TIMER: Space.timer,
    Kind.READY: Space.gets_ready,
    Kind.HEARS: Space.hears,
    Kind.GROUP_TIMER: Space.group_timer,
    Kind.TIME: Space.time_passes,
    Kind.STARTS: Space.starts,
    Kind.LOST: Space.is_lost,
    Kind.LOST_UNNOTICED: Space.is_lost,
    Kind.LATE: Space.is_late,
    Kind.CRASHES: Space.crashes,
    Kind.PAUSED: Space.is_paused,
    Kind.TAKEN_OVER: Space.starts,
    Kind.LEAVES: Space.leaves,
}
