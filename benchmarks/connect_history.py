"""What Connect's own assignor makes of a history of members: Java's class on a clock of its own, with no broker and no
worker.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path[:0] = [str(Path(__file__).parent.parent / folder) for folder in ("tests", "tests/peers")]

from referee import running_referee  # noqa: E402

_JOB: Final = "streams"
_MAX_DELAY_MS: Final = 300_000
"""Connect's default: for so long it waits for lost workers."""
_APART_MS: Final = 3_600_000
"""Between two acts of a history."""

Pairs = list[list[Any]]
"""Tasks as the referee says them: a job and an index, which is -1 for the connector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRest:
    """The group after an act, when it changes nothing any more.

    :param streams: how many tasks each worker runs
    :param stopped: how many tasks workers that stayed were told to stop
    :param waited_ms: the delays that the assignor has asked for
    """

    streams: dict[str, int]
    stopped: int
    rounds: int
    waited_ms: int


def played(folder: Path, streams: int, history: Sequence[Collection[str]]) -> list[ConnectRest]:
    """Let a connector with so many tasks run on the members of each act, one act after another.

    :param folder: for the compiled classes and Java's log
    :param history: the names of the members after each act
    """
    group = _Group(streams)
    with running_referee(folder) as referee:
        for answer in referee.replay(group.rounds(history), max_delay_ms=_MAX_DELAY_MS):
            group.follow(answer)
    return group.rests


@dataclass(slots=True)
class _Group:
    """Workers that do what they are told, and join again as Connect's do: when they have stopped something, and when
    the delay is over.
    """

    streams: int
    rests: list[ConnectRest] = field(default_factory=list)
    _owned: dict[str, Pairs] = field(default_factory=dict)
    _now_ms: int = 0
    _generation: int = 0
    _settled: bool = False
    _stopped: int = 0
    _waited_ms: int = 0

    def rounds(self, history: Sequence[Collection[str]]) -> Iterator[dict[str, Any]]:
        """The rounds that follow from the acts, and from the answers to :meth:`follow`."""
        for members in history:
            self._owned = {member: self._owned.get(member, []) for member in members}
            self._now_ms += _APART_MS
            self._stopped, self._waited_ms, self._settled, began = 0, 0, False, self._generation
            while not self._settled:
                self._generation += 1
                yield {
                    "now": self._now_ms,
                    "generation": self._generation,
                    "last_completed": self._generation - 1,
                    "jobs": {_JOB: self.streams},
                    "owned": self._owned,
                }
            rest = ConnectRest(
                streams={member: _tasks(owned) for member, owned in self._owned.items()},
                stopped=self._stopped,
                rounds=self._generation - began,
                waited_ms=self._waited_ms,
            )
            self.rests.append(rest)

    def follow(self, answer: dict[str, Any]) -> None:
        """Do what a round decided."""
        assigned, revoked, delay_ms = answer["assigned"], answer["revoked"], answer["delay"]
        self._owned = {
            member: [task for task in owned if task not in revoked[member]] + assigned[member]
            for member, owned in self._owned.items()
        }
        self._stopped += sum(map(_tasks, revoked.values()))
        self._now_ms += delay_ms
        self._waited_ms += delay_ms
        self._settled = not delay_ms and not any(revoked.values())


def _tasks(pairs: Pairs) -> int:
    """How many of these are tasks, without connectors."""
    return sum(index >= 0 for _, index in pairs)
