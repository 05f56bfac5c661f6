"""The consumer group in which the candidates share the shards, as far as one shard sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.declarative.candidate import Candidate

from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings

if TYPE_CHECKING:
    from simulation.declarative.world import World

SESSION_MS = 3_000
"""A candidate that stands still or is dead for this time loses the shard."""
REVIVED_MS = 2_000


class Candidates:
    """All candidates. At most one owns the shard, but others may believe that they do."""

    def __init__(self, world: World, number: int, settings: CoordinatorSettings) -> None:
        self._world = world
        self._settings = settings
        self._made = 0
        self._owner: Candidate | None = None
        self.away = False
        self.all: list[Candidate] = []
        for _ in range(number):
            self._make()
        self._choose()

    @property
    def owner(self) -> Candidate | None:
        """The owner of the shard according to the consumer group."""
        return self._owner

    @property
    def awake(self) -> list[Candidate]:
        return [one for one in self.all if one.alive and not one.asleep]

    def jobs_changed(self) -> None:
        for one in self.all:
            if one.alive:
                one.jobs_changed()

    def look(self) -> None:
        """There are new requests."""
        for one in self.all:
            if one.assigned:
                one.look()

    def kill(self, one: Candidate, *, revived_ms: int = REVIVED_MS) -> None:
        one.kill()
        self.all.remove(one)
        self._world.clock.after(revived_ms, self._make)
        if one is self._owner:
            self._world.clock.after(SESSION_MS, lambda: self._give_away(one))

    def sleep(self, one: Candidate, ms: int) -> None:
        one.sleep(ms)
        if one is self._owner and ms > SESSION_MS:
            self._world.clock.after(SESSION_MS, lambda: self._give_away(one))
            self._world.clock.after(ms + one.rng.randint(0, 2_500), lambda: self._find_out(one))

    def move(self) -> bool:
        """The shard goes to another candidate in good order."""
        one = self._owner
        others = [other for other in self.awake if other is not one]
        if one is None or not others or one.asleep or not one.alive:
            return False
        one.revoke()
        self._assign(one.rng.choice(others))
        return True

    def _find_out(self, one: Candidate) -> None:
        """A zombie learns that it has lost the shard."""
        if one is not self._owner and one.alive and one.assigned:
            one.revoke()

    def _give_away(self, one: Candidate) -> None:
        if one is self._owner and (not one.alive or one.asleep):
            self._owner = None
            self._choose()

    def _make(self) -> None:
        self._made += 1
        self.all.append(Candidate(self._world, f"c{self._made}", self._settings))
        if self._owner is None:
            self._choose()

    def _choose(self) -> None:
        if self._owner is None:
            if self.awake:
                self._assign(self._world.rng.choice(self.awake))
            elif self.all:
                self._world.clock.after(SESSION_MS, self._choose)

    def _assign(self, one: Candidate) -> None:
        self._owner = one
        self._world.note(f"{one.name:8} ---- is assigned the shard")
        one.assign()
