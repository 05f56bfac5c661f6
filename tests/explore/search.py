"""Breadth first through all worlds of a scope, those seen before cut off; then: does each come to rest?

To rest. From each world one course of things is followed in which no fault strikes any more and no worker starts: the
first move of module ``moves``, again and again. There are finitely many worlds, so it ends in a circle (or stands
still). All worlds of that circle must be at rest. What is shown is that from every world that can be reached, however
many faults are left, a way leads to rest on which nobody has to do anything; not that every way does.
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
    """What came of a search.

    :param complete: every world of the scope was seen, and all that may follow
    :param moves: how many were made
    :param path: the shortest to what is broken, and for a world that does not come to rest, the circle in which it ends
    :param broken: what the next move breaks
    """

    space: Space
    worlds: int
    moves: int
    complete: bool
    path: tuple[World, ...] = ()
    broken: Exception | None = None


def explore(scope: Scope, *, limit: int = 0, progress: Callable[[int, int], None] | None = None) -> Found:
    """Search to the end, or to the first rule that is broken.

    :param limit: of worlds; 0: none
    :param progress: called now and then with how many worlds have been left behind, and how many are known
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
            except Exception as broken:  # noqa: BLE001  # whatever the product raises, too
                return self._found(complete=False, path=self._path(at), broken=broken)
        restless = self._restless()
        if restless is None:
            return self._found(complete=True)
        path = tuple(worlds[number] for number in restless)
        return self._found(complete=False, path=path, broken=rules.BrokenError(rules.REST, "it goes on and on"))

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
        """The way to a world that does not come to rest, and round the circle in which it ends."""
        comes_to_rest = bytearray(len(self._worlds))
        for number in range(len(self._worlds)):
            way, circle = self._follow(number, comes_to_rest)
            if not all(rules.at_rest(self._worlds[each], self._scope) for each in circle):
                return self._way_to(number) + way[1:]
            for each in way:
                comes_to_rest[each] = True
        return None

    def _follow(self, number: int, comes_to_rest: bytearray) -> tuple[list[int], list[int]]:
        """What happens by itself, up to a world that is known to come to rest or has been passed before.

        :return: the way, and the circle in which it ends
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
