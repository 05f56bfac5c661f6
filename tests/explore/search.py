"""Searches all worlds of a scope breadth first, each once; then checks that each comes to rest.

Rest: from each world one path is followed on which no fault strikes and no worker starts: always the first move of
module ``moves``. There are finitely many worlds, so it ends in a cycle (or stands still). All worlds of that cycle must
be at rest. This shows that from every reachable world, however many faults are left, some path leads to rest without
any action; not that every path does.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from explore import rules
from explore.moves import BY_ITSELF, Move, moves
from explore.normal import World
from explore.space import Space
from explore.values import Scope

_NONE = -1
_OFTEN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a search.

    :param complete: all worlds of the scope were visited
    :param moves: the number of moves made
    :param path: the shortest one to the broken rule; for a world without rest, followed by the cycle in which it ends
    :param broken: what the next move breaks
    """

    space: Space
    worlds: int
    moves: int
    complete: bool
    path: tuple[World, ...] = ()
    broken: Exception | None = None


def explore(scope: Scope, *, limit: int = 0, progress: Callable[[int, int], None] | None = None) -> Found:
    """Search to the end, or to the first broken rule.

    :param limit: of worlds; 0 means none
    :param progress: called now and then with the numbers of finished and of known worlds
    """
    return _Search(scope).run(limit, progress or (lambda _done, _known: None))


class _Search:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._space = Space(scope)
        first = self._space.normal(self._space.beginning())
        self._worlds = [first]
        self._numbers = {first: 0}
        self._from = array("q", [_NONE])
        self._next = array("q")
        self._moves = 0

    def run(self, limit: int, progress: Callable[[int, int], None]) -> Found:
        worlds = self._worlds
        while len(self._next) < len(worlds):
            at = len(self._next)
            if limit and len(worlds) > limit:
                return self._found(complete=False)
            if at % _OFTEN == 0:
                progress(at, len(worlds))
            try:
                self._leave(at)
            except Exception as broken:  # noqa: BLE001  # also whatever the product raises
                return self._found(complete=False, path=self._path(at), broken=broken)
        restless = self._restless()
        if restless is None:
            return self._found(complete=True)
        path = tuple(worlds[number] for number in restless)
        return self._found(complete=False, path=path, broken=rules.BrokenError(rules.REST, "it never comes to rest"))

    def _leave(self, at: int) -> None:
        """Make every move from a world."""
        first = _NONE
        for move in moves(self._worlds[at], self._scope):
            number = self._arrive(at, move)
            if first == _NONE and move.kind in BY_ITSELF:
                first = number
        self._next.append(first)

    def _arrive(self, at: int, move: Move) -> int:
        world = self._space.normal(self._space.after(self._worlds[at], move))
        self._moves += 1
        number = self._numbers.setdefault(world, len(self._worlds))
        if number == len(self._worlds):
            self._worlds.append(world)
            self._from.append(at)
        return number

    def _path(self, at: int) -> tuple[World, ...]:
        return tuple(self._worlds[number] for number in self._way_to(at))

    def _way_to(self, at: int) -> list[int]:
        way = []
        while at != _NONE:
            way.append(at)
            at = self._from[at]
        return way[::-1]

    def _found(self, *, complete: bool, path: tuple[World, ...] = (), broken: Exception | None = None) -> Found:
        return Found(
            space=self._space,
            worlds=len(self._worlds),
            moves=self._moves,
            complete=complete,
            path=path,
            broken=broken,
        )

    # ---- rest

    def _restless(self) -> list[int] | None:
        """The path to a world that does not come to rest, and around the cycle in which it ends."""
        comes_to_rest = bytearray(len(self._worlds))
        for number in range(len(self._worlds)):
            way, circle = self._follow(number, comes_to_rest)
            if not all(rules.at_rest(self._worlds[each], self._scope) for each in circle):
                return self._way_to(number) + way[1:]
            for each in way:
                comes_to_rest[each] = True
        return None

    def _follow(self, number: int, comes_to_rest: bytearray) -> tuple[list[int], list[int]]:
        """Follow the moves that happen by themselves, up to a world that is known to come to rest or was passed before.

        :return: the path, and the cycle in which it ends
        """
        way: list[int] = []
        passed: dict[int, int] = {}
        while number != _NONE and not comes_to_rest[number]:
            if number in passed:
                return way, way[passed[number] :]
            passed[number] = len(way)
            way.append(number)
            number = self._next[number]
        return way, way[-1:] if number == _NONE else []
