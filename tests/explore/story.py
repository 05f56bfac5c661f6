"""Tells a path of worlds as a story: what happened and how the product reacted, with running time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from embedded_bytes import decode_assignment
from explore import rules
from explore.epochs import CODECS
from explore.moves import Kind, Move, moves, ready_for
from explore.normal import Node, World
from explore.process import Reaction
from explore.search import Found
from explore.space import Space
from explore.values import NOW, TICK, Flight, Join, Sync, Way

from airflow_provider.group.classic.member.events import PublishGroup
from airflow_provider.group.machine.events import ArmTimer, Command, Event
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import NO_TASKS

_HIDDEN = frozenset(
    {"now_ms", "seq", "node", "last_record", "metadata", "protocols", "members", "record", "config_offset", "protocol"}
)


class Story:
    """What happens along a path, with the ids, generations and reasons of one history."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._world = space.beginning()
        self._ticks = 0
        self.lines: list[str] = []

    @property
    def world(self) -> World:
        return self._world

    def go_to(self, normal: World) -> None:
        """Make the move that leads to this world.

        :param normal: a successor, in normal form
        """
        for move in moves(self._world, self._space.scope):
            after = self._space.after(self._world, move)
            if self._space.normal(after) == normal:
                self._tell(move, after)
                return
        raise AssertionError("no move leads there")

    def break_it(self, kind: str) -> None:
        """Make the move that breaks a rule.

        :param kind: the kind of failure
        """
        for move in moves(self._world, self._space.scope):
            try:
                self._space.after(self._world, move)
            except Exception as broken:  # noqa: BLE001  # also whatever the product raises
                if rules.kind_of(broken) == kind:
                    self._tell(move, None)
                    self.lines.append(f"      {broken}")
                    return
        raise AssertionError("nothing breaks here")

    def _tell(self, move: Move, after: World | None) -> None:
        if move.kind is Kind.TIME:
            self._ticks += move.ms // TICK
        else:
            self.lines.append(f"{self._ticks:4}  {_told(move)}")
            self.lines += [f"          {line}" for line in self._commands(move, after)]
        if after is not None:
            self._world = after

    def _commands(self, move: Move, after: World | None) -> Iterator[str]:
        before = self._world.process(move.mark)
        if before is None and after is not None:
            before = next((node for node in after.processes if node.value.mark == move.mark), None)
        reaction = None if before is None else _reaction(before, move, self._world)
        if reaction is None:
            return
        for command in reaction.commands:
            if not isinstance(command, ArmTimer):
                yield _short(command)
        yield f"[{reaction.process.state.phase.value}]"


def _reaction(node: Node, move: Move, world: World) -> Reaction | None:
    keys: dict[Kind, Any] = {
        Kind.TIMER: "timer",
        Kind.LEAVES: "leaves",
        Kind.READS: ("reads", world.topics),
        Kind.READY: ("ready", move.task),
        Kind.HEARS: ("hears", ready_for(node.value, world.topics.value)),
    }
    key = keys.get(move.kind)
    if move.kind is Kind.ARRIVES and move.flight is not None:
        way = move.flight.value.way
        if way in (Way.REQUEST, Way.WRITE):
            return None
        key = (move.flight, world.topics) if way is Way.COMPUTE else move.flight
    return node.made.get(key)


def _told(move: Move) -> str:
    if move.flight is None:
        return f"{move.mark} {move.kind.value}"
    flight: Flight = move.flight.value
    match flight.way:
        case Way.REQUEST:
            what = flight.what.command if isinstance(flight.what, (Join, Sync)) else flight.what
            return f"{flight.mark} -> coordinator: {_short(what)} {move.kind.value}"
        case Way.ANSWER:
            return f"{flight.mark} <- {_short(flight.what)} {move.kind.value}"
        case Way.FIND:
            return f"{flight.mark} finds the coordinator ({move.kind.value})"
        case Way.COMPUTE:
            return f"{flight.mark} computes the assignment ({move.kind.value})"
        case Way.HOLD:
            return f"{flight.mark} has held its assignment back ({move.kind.value})"
        case Way.WRITE:
            return f"{flight.mark}'s group record {_record(flight.what)} {move.kind.value}"
    return f"{flight.mark}: what it stopped has stopped: {_value(flight.what)} ({move.kind.value})"


def _short(thing: Event | Command) -> str:
    if isinstance(thing, PublishGroup):
        return f"PublishGroup({_record(thing.record)})"
    named = [(field.name, getattr(thing, field.name)) for field in fields(thing) if field.name not in _HIDDEN]
    shown = ", ".join(f"{name}={_value(value)}" for name, value in named if value not in (None, "", {}))
    return f"{type(thing).__name__}({shown})"


def _record(record: ClassicRecord) -> str:
    told = [
        f"epoch {record.epoch} generation {record.generation} by {record.leader_member}: {_value(record.assignment)}"
    ]
    if record.revokes:
        told.append(f"revoked {_value(record.revoked)}")
    if record.delay_ms:
        told.append(f"delay {record.delay_ms}")
    return ", ".join(told)


def _value(value: Any) -> str:
    if isinstance(value, frozenset):
        return "{" + " ".join(sorted(map(str, value))) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_value(each)}" for key, each in sorted(value.items())) + "}"
    if isinstance(value, bytes):
        if not value:
            return "nothing"
        if codec := CODECS.get(value[:2]):
            whole = codec.decode_assignment(value)
            target = NO_TASKS if whole.target is None else whole.target.tasks()
            return f"={_value(target)} learns {_value(whole.learning.tasks())}"
        told = decode_assignment(value)
        text = f"+{_value(told.assigned)} -{_value(told.revoked)}"
        return f"{text} delay {told.delay_ms}" if told.delay_ms else text
    if isinstance(value, int) and value > NOW // 2:
        return f"{(value - NOW) / TICK:+g}"
    return str(getattr(value, "value", value))


def tell(found: Found) -> str:
    """The shortest path to the broken rule; for a world without rest, with the cycle in which it ends."""
    story = Story(found.space)
    for world in found.path[1:]:
        story.go_to(world)
    if found.broken is not None:
        kind = rules.kind_of(found.broken)
        if kind == rules.REST:
            story.lines.append(f"      {found.broken}")
        else:
            story.break_it(kind)
    return "\n".join(story.lines)
