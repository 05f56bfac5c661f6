"""A process that coordinates, or could: the shard's real code, and the turns of its thread.

A turn takes time: it handles what was there at its beginning, with the clock of that moment, and commits its
transaction at its end. A process that is paused in between ends its turn when it wakes: then it may be a zombie.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from simulation.clock import LocalClock
from simulation.declarative.shard_topics import SimulatedLog

from airflow_provider.group.declarative.coordinator.coordinator import Coordinator
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.protocol.sharding import Layout
from airflow_provider.group.declarative.server.errors import FencedError, ShardError
from airflow_provider.group.declarative.server.migration.bridges import BridgeWord
from airflow_provider.group.declarative.server.migration.crossing import Crossing
from airflow_provider.group.declarative.server.request_handling.faulty import Faulty
from airflow_provider.group.declarative.server.request_handling.held import Held
from airflow_provider.group.declarative.server.request_handling.oversized import Oversized
from airflow_provider.group.declarative.server.request_handling.serving import Serving

if TYPE_CHECKING:
    from simulation.declarative.world import World

LAYOUT = Layout(shards=1, replies=1)
STALLED_MS = 4_000
FENCED_REST_MS = 3_000
BATCH = 50


class Candidate:
    """One process that may coordinate.

    :ivar assigned: whether it believes that the shard is its own
    :ivar read_to: the offset up to which it has taken requests
    """

    def __init__(self, world: World, name: str, settings: CoordinatorSettings) -> None:
        self.world = world
        self.name = name
        self.settings = settings
        self.rng = random.Random(f"{world.seed}/{name}")
        drift = world.clock_drift_ppm
        self.clock = LocalClock(
            world.clock, drift_ppm=self.rng.randint(-drift, drift), offset=self.rng.randint(0, 10_000_000)
        )
        self.alive = True
        self.assigned = False
        self.machine: Coordinator | None = None
        self.log: SimulatedLog | None = None
        self.read_to = 0
        self._serving: Serving | None = None
        self._held = Held()
        self._faulty = Faulty()
        self._frozen: int | None = None
        self._asleep_until = 0
        self._slept_ms = 0
        self._busy = False
        self._life = 0
        self._jobs_wanted = False
        self._jobs_read = False
        self._crossing: Crossing | None = None
        self._words: list[BridgeWord] = []

    @property
    def asleep(self) -> bool:
        return self.world.clock.now < self._asleep_until

    @property
    def now(self) -> int:
        return self.clock.now if self._frozen is None else self._frozen

    # ---- faults and assignments

    def kill(self) -> None:
        self.world.note(f"{self.name:8} ---- killed")
        self.alive = self.assigned = False
        self._drop()

    def sleep(self, ms: int) -> None:
        self.world.note(f"{self.name:8} ---- stands still for {ms} ms")
        self._asleep_until = max(self._asleep_until, self.world.clock.now + ms)
        self._slept_ms = max(self._slept_ms, ms)
        self.world.clock.after(ms, self.look)

    def assign(self) -> None:
        """It gets the shard."""
        self.assigned = True
        self._drop()
        self._held = Held()
        self.read_to = self.world.topics.handled_to
        self._begin()

    def revoke(self) -> None:
        """It loses the shard. If it can, it has waiting members ask again."""
        self.assigned = False
        serving = self._serving
        if serving is not None and not self._busy and not self.asleep:
            try:
                serving.hand_over()
            except ShardError as wrong:
                self.world.note(f"{self.name:8} could not hand over: {wrong}")
        self._drop()

    # ---- its thread

    def _drop(self) -> None:
        crossing, self._crossing = self._crossing, None
        if crossing is not None:
            crossing.close()
        self._serving = self.machine = self.log = None
        self._words = []
        self._life += 1
        self._busy = False

    def _begin(self) -> None:
        """Begin to load, which takes a while."""
        self._drop()
        life = self._life
        self._busy = True
        self.world.clock.after(self.world.loading_ms(), lambda: self._when_awake(life, self._load))

    def _when_awake(self, life: int, do: object) -> None:
        """Go on unless it has been dropped meanwhile."""
        if life != self._life or not self.alive:
            return
        if self.asleep:
            wait_ms = self._asleep_until - self.world.clock.now
            self.world.clock.after(wait_ms, lambda: self._when_awake(life, do))
            return
        assert callable(do)
        do()

    def _load(self) -> None:
        machine = Coordinator(self.settings)
        log = SimulatedLog(self.world.topics, lambda: self.world.candidates.owner is self)
        if self.world.bridges is not None:
            self._crossing = Crossing(machine, self.world.bridges(self), self._hear)
        serving = Serving(
            0,
            LAYOUT,
            machine,
            log,
            held=self._held,
            faulty=self._faulty,
            oversized=Oversized(),
            now_ms=lambda: self.now,
            crossing=self._crossing,
        )
        self._busy = False
        try:
            count = serving.load()
        except ShardError as wrong:
            self._went_wrong(wrong)
            return
        self.world.note(f"{self.name:8} serves the shard: {count} records loaded")
        self._serving, self.machine, self.log = serving, machine, log
        self._slept_ms = 0
        self.read_to = max(self.read_to, log.handled_to())
        self._jobs_wanted = self._jobs_read = False
        self.world.served(self)
        self.look()

    def look(self) -> None:
        """Take a turn, if there is anything to do."""
        if self._busy or self._serving is None or self.asleep or not self.alive:
            return
        self._follow_jobs()
        if self._slept_ms > STALLED_MS:
            self.world.note(f"{self.name:8} has stood still, and loads again")
            self._rest_and_load()
            return
        self._slept_ms = 0
        until = min(len(self.world.topics.requests), self.read_to + BATCH)
        jobs = {"g": self.world.jobs.configured} if self._jobs_wanted else {}
        if until == self.read_to and not jobs and not self._words and not self._is_due():
            self._set_alarm()
            return
        self._busy, self._jobs_wanted = True, False
        now, life = self.clock.now, self._life
        self.world.clock.after(
            self.world.committing_ms(), lambda: self._when_awake(life, lambda: self._turn(now, until, jobs))
        )

    def _turn(self, now: int, until: int, jobs: dict[str, frozenset]) -> None:  # type: ignore[type-arg]
        serving, requests = self._serving, self.world.topics.requests[self.read_to : until]
        words, self._words = self._words, []
        assert serving is not None
        self._busy = False
        self._frozen = now
        try:
            if requests or jobs or words:
                serving.handle(requests, jobs, (), words)
                self.read_to = until
            if self._is_due() and self.read_to >= len(self.world.topics.requests):
                serving.fire()
        except ShardError as wrong:
            self._frozen = None
            self._went_wrong(wrong)
            return
        self._frozen = None
        self.world.served(self)
        self.look()

    def _went_wrong(self, wrong: ShardError) -> None:
        self.world.note(f"{self.name:8} {wrong}")
        if not isinstance(wrong, FencedError):
            self._rest_and_load()
            return
        session_ms = self.settings.session_timeout_ms if self._serving is None else self._serving.shortest_session_ms
        self._drop()
        life = self._life

        def again() -> None:
            if self.assigned:
                self.assign()

        self.world.clock.after(min(FENCED_REST_MS, session_ms // 10), lambda: self._when_awake(life, again))

    def _rest_and_load(self) -> None:
        self._drop()
        life = self._life
        self.world.clock.after(500, lambda: self._when_awake(life, self._begin))

    # ---- timers, jobs, bridges

    def _hear(self, word: BridgeWord) -> None:
        life = self._life
        self._words.append(word)
        self.world.clock.after(0, lambda: self._when_awake(life, self.look))

    def _is_due(self) -> bool:
        at = self._serving.timer_at_ms if self._serving is not None else None
        return at is not None and at <= self.now

    def _set_alarm(self) -> None:
        assert self._serving is not None
        at = self._serving.timer_at_ms
        if at is not None:
            life = self._life
            self.world.clock.after(max(1, self.clock.until(at)), lambda: self._when_awake(life, self.look))

    def _follow_jobs(self) -> None:
        """Read the configuration as soon as the shard has a group with members."""
        if self._crossing is None and self._serving is not None and self._serving.groups and not self._jobs_read:
            self._jobs_read = True
            self.jobs_changed()

    def jobs_changed(self) -> None:
        if not self._jobs_read:
            return
        life = self._life

        def read() -> None:
            self._jobs_wanted = True
            self.look()

        self.world.clock.after(self.rng.randint(0, 200), lambda: self._when_awake(life, read))
