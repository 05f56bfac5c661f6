"""Random histories: workers change the protocol and back one by one, and anything may die, stand still or be away."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from simulation.bridged.world import BridgedWorld

from airflow_provider.values.group_protocol.bridge import BRIDGE

WORKERS: Final = ("w1", "w2", "w3")
STEPS: Final = 25
CONVERGES_MS: Final = 400_000
"""The longest wait: for a bridge's session, and then for a rebalance that waits as long."""


class History:
    """One history.

    :ivar world: where it takes place
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"{seed}/history")
        self.world = BridgedWorld(seed)
        self._classic = set(WORKERS)
        self._declarative: set[str] = set()
        self._starts = 0
        self._has_more = False
        self._actions: tuple[Callable[[], None], ...] = (
            self._there,
            self._back,
            self._kill_classic,
            self._kill_declarative,
            self._kill_coordinator,
            self._stop_coordinator,
            self._move_shard,
            self._stop_worker,
            self._brokers_away,
            self._cut_bridge,
            self._more_work,
        )

    def run(self) -> None:
        """:raises HistoryError: a rule was broken"""
        world, rng = self.world, self._rng
        world.configure("a", 6)
        for worker in WORKERS:
            world.start_classic(worker)
        for _ in range(STEPS):
            world.run(rng.randint(50, 8_000))
            action = rng.choice(self._actions)
            world.classic.note(f"---- {action.__name__}")
            action()
        world.make_peace()
        assert world.comes_to(lambda: world.at_rest and world.is_even, within_ms=CONVERGES_MS), world.classic.story()

    # ---- what may happen

    def _there(self) -> None:
        """A classic worker is restarted as a declarative one."""
        there = sorted(self._classic & self.world.classic.processes.keys())
        if there:
            worker = self._rng.choice(there)
            self._classic.discard(worker)
            self.world.classic.leave(worker)
            other = self._named("d")
            self._declarative.add(other)
            self._soon(lambda: self.world.start_declarative(other))

    def _back(self) -> None:
        if self._declarative:
            worker = self._rng.choice(sorted(self._declarative))
            self._declarative.discard(worker)
            process = self.world.declarative.live.get(worker)
            if process is not None:
                process.leave()
            other = self._named("c")
            self._classic.add(other)
            self._soon(lambda: self.world.start_classic(other))

    def _kill_classic(self) -> None:
        worker = self._rng.choice(sorted(self._classic) or [""])
        process = self.world.classic.processes.get(worker)
        if process is not None and process.in_group:
            self.world.classic.bounce(worker, self._rng.randint(10, 30_000))

    def _kill_declarative(self) -> None:
        worker = self._rng.choice(sorted(self._declarative) or [""])
        process = self.world.declarative.live.get(worker)
        if process is not None:
            self.world.declarative.kill(process)
            back_ms = self._rng.randint(10, 20_000)
            self.world.declarative.later(back_ms, worker, lambda: self.world.start_declarative(worker))

    def _kill_coordinator(self) -> None:
        candidates = self.world.declarative.candidates
        owner = candidates.owner
        if owner is not None and owner in candidates.all:
            candidates.kill(owner)

    def _stop_coordinator(self) -> None:
        """It stands still for a while, mostly for too long."""
        owner = self.world.declarative.candidates.owner
        if owner is not None and owner.alive:
            self.world.sleep(owner, self._rng.choice((500, 5_000, 20_000, 90_000)))

    def _move_shard(self) -> None:
        self.world.declarative.candidates.move()

    def _stop_worker(self) -> None:
        worker = self._rng.choice(sorted(self._classic | self._declarative) or [""])
        process = self.world.classic.processes.get(worker) or self.world.declarative.live.get(worker)
        if process is not None:
            process.sleep(self._rng.randint(100, 20_000))

    def _brokers_away(self) -> None:
        """The broker of the classic group is away, perhaps for longer than a bridge's session."""
        self.world.classic.coordinator_away = True
        self.world.clock.after(self._rng.choice((1_000, 15_000, 90_000)), self.world.classic.coordinator_back)

    def _cut_bridge(self) -> None:
        """The bridge can't reach the classic group's coordinator, while its own coordinator goes on."""
        bridge = self.world.classic.processes.get(BRIDGE)
        if bridge is not None and bridge.in_group:
            bridge.cut()
            self.world.clock.after(self._rng.choice((5_000, 15_000, 90_000)), bridge.reconnect)

    def _more_work(self) -> None:
        if not self._has_more:
            self._has_more = True
            self.world.configure("b", self._rng.randint(1, 4))

    def _named(self, kind: str) -> str:
        self._starts += 1
        return f"{kind}{self._starts}"

    def _soon(self, start: Callable[[], None]) -> None:
        self.world.clock.after(self._rng.randint(0, 3_000), start)
