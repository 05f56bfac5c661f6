"""The network between a process and the coordinator: latency and faults."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from simulation.clock import Clock, Timer

Delivery = Callable[[], None]
Answer = Callable[[Delivery], None]

HELD_MS = 3_000
"""A reply that waits to be overtaken arrives after this time even if no other came."""


@dataclass(slots=True, kw_only=True)
class Faults:
    """The probability of each fault for one request, from 0 to 1; and the range of one-way latencies, in ms.

    :param reorder: the reply is overtaken by the next one that goes to the same process
    :param lose_hint: a record that hints at a rebalance is not noticed by a process
    """

    lose_request: float = 0.0
    lose_reply: float = 0.0
    double_reply: float = 0.0
    late_reply: float = 0.0
    reorder: float = 0.0
    lose_hint: float = 0.0
    double_hint: float = 0.0
    latency_ms: tuple[int, int] = (1, 3)
    late_ms: tuple[int, int] = (1_000, 15_000)

    def stop(self) -> None:
        """From now on there are no faults."""
        self.lose_request = self.lose_reply = self.double_reply = self.late_reply = self.reorder = 0.0
        self.lose_hint = self.double_hint = 0.0


class Network:
    """What all messages share. ``struck`` counts the faults by kind."""

    def __init__(self, clock: Clock) -> None:
        self.faults = Faults()
        self.clock = clock
        self.struck = {"lost requests": 0, "lost replies": 0, "doubled": 0, "late": 0, "reordered": 0}

    def latency(self, rng: random.Random) -> int:
        return rng.randint(*self.faults.latency_ms)

    def hints(self, rng: random.Random) -> int:
        """How often a process notices one hint at a rebalance."""
        lost, doubled = self.faults.lose_hint, self.faults.double_hint
        if lost and rng.random() < lost:
            return 0
        return 2 if doubled and rng.random() < doubled else 1


class Line:
    """Carries one process's requests to the coordinator and the replies back, in virtual time.

    Each process has random numbers of its own: the fate of its messages does not depend on others.

    :param connected: whether anything gets through now
    """

    def __init__(self, network: Network, rng: random.Random, connected: Callable[[], bool]) -> None:
        self.network = network
        self.rng = rng
        self.connected = connected
        self._held: list[Delivery] = []

    def send(self, ask: Callable[[Answer], None], *, failed: Callable[[str], None], timeout_ms: int) -> None:
        """Carry one request.

        :param ask: runs at the coordinator and gets ``answer``, which carries the reply back
        :param failed: called once if no reply came in time or the connection broke
        """
        _Exchange(self, failed).send(ask, timeout_ms)

    def latency(self) -> int:
        return self.network.latency(self.rng)

    def lateness(self) -> int:
        faults = self.network.faults
        return self.rng.randint(*faults.late_ms) if self.strikes(faults.late_reply, "late") else 0

    def strikes(self, likelihood: float, kind: str) -> bool:
        if likelihood <= 0 or self.rng.random() >= likelihood:
            return False
        self.network.struck[kind] += 1
        return True

    def hold(self, delivery: Delivery) -> None:
        """Deliver this after the next delivery."""
        self._held.append(delivery)
        self.network.clock.after(HELD_MS, self.release)

    def release(self) -> None:
        held, self._held = self._held, []
        for delivery in held:
            delivery()


class _Exchange:
    """One request and its reply. After the timeout a reply may still come, or come a second time."""

    __slots__ = ("_failed", "_line", "_over", "_timeout")

    def __init__(self, line: Line, failed: Callable[[str], None]) -> None:
        self._line = line
        self._failed = failed
        self._over = False
        self._timeout: Timer | None = None

    def send(self, ask: Callable[[Answer], None], timeout_ms: int) -> None:
        line = self._line
        clock, faults = line.network.clock, line.network.faults
        self._timeout = clock.after(timeout_ms, lambda: self._fail("timeout"))
        if line.strikes(faults.lose_request, "lost requests"):
            self._lose()
        else:
            clock.after(line.latency(), lambda: ask(self._answer) if line.connected() else None)

    def _answer(self, delivery: Delivery) -> None:
        line = self._line
        clock, faults = line.network.clock, line.network.faults
        if line.strikes(faults.lose_reply, "lost replies"):
            self._lose()
            return
        overtaken = line.strikes(faults.reorder, "reordered")
        clock.after(line.latency() + line.lateness(), lambda: self._arrive(delivery, overtaken=overtaken))
        if line.strikes(faults.double_reply, "doubled"):
            clock.after(2 * line.latency() + line.lateness(), lambda: self._arrive(delivery, overtaken=False))

    def _arrive(self, delivery: Delivery, *, overtaken: bool) -> None:
        if overtaken:
            self._line.hold(lambda: self._deliver(delivery))
        else:
            self._deliver(delivery)
            self._line.release()

    def _deliver(self, delivery: Delivery) -> None:
        if self._line.connected():
            self._over = True
            if self._timeout is not None:
                self._timeout.cancel()
            delivery()

    def _lose(self) -> None:
        """A loss is noticed immediately if the connection breaks, otherwise only at the timeout."""
        line = self._line
        if line.rng.random() < 0.5:
            line.network.clock.after(line.latency(), lambda: self._fail("connection reset"))

    def _fail(self, cause: str) -> None:
        if not self._over:
            self._over = True
            self._failed(cause)
