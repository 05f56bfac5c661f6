"""Between a process and the coordinator: latency, and everything that can go wrong on the way."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from simulation.clock import Clock

Delivery = Callable[[], None]
Answer = Callable[[Delivery], None]


@dataclass(slots=True, kw_only=True)
class Faults:
    """How likely, from 0 to 1, each fault is for one request; and the range of latencies one way, in ms."""

    lose_request: float = 0.0
    lose_reply: float = 0.0
    double_reply: float = 0.0
    late_reply: float = 0.0
    latency_ms: tuple[int, int] = (1, 3)
    late_ms: tuple[int, int] = (1_000, 15_000)

    def stop(self) -> None:
        """From now on all goes well."""
        self.lose_request = self.lose_reply = self.double_reply = self.late_reply = 0.0


class Network:
    """Carries requests there and replies back, in virtual time."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self.faults = Faults()
        self.clock = clock
        self._rng = rng

    def latency(self) -> int:
        return self._rng.randint(*self.faults.latency_ms)

    def lateness(self) -> int:
        return self._rng.randint(*self.faults.late_ms) if self.strikes(self.faults.late_reply) else 0

    def strikes(self, likelihood: float) -> bool:
        return likelihood > 0 and self._rng.random() < likelihood

    def send(
        self,
        ask: Callable[[Answer], None],
        *,
        connected: Callable[[], bool],
        failed: Callable[[str], None],
        timeout_ms: int,
    ) -> None:
        """Carry one request.

        :param ask: runs at the coordinator; is given ``answer``, which carries the delivery of a reply back
        :param connected: whether anything gets through now
        :param failed: called once if no reply came in time or the connection broke
        """
        _Exchange(self, connected, failed).send(ask, timeout_ms)


class _Exchange:
    """One request and its reply. After the timeout a reply may still come, or come a second time."""

    def __init__(self, network: Network, connected: Callable[[], bool], failed: Callable[[str], None]) -> None:
        self._network = network
        self._connected = connected
        self._failed = failed
        self._over = False

    def send(self, ask: Callable[[Answer], None], timeout_ms: int) -> None:
        network = self._network
        network.clock.after(timeout_ms, lambda: self._fail("timeout"))
        if network.strikes(network.faults.lose_request):
            self._lose()
        else:
            network.clock.after(network.latency(), lambda: ask(self._answer) if self._connected() else None)

    def _answer(self, delivery: Delivery) -> None:
        network = self._network
        if network.strikes(network.faults.lose_reply):
            self._lose()
            return
        network.clock.after(network.latency() + network.lateness(), lambda: self._deliver(delivery))
        if network.strikes(network.faults.double_reply):
            network.clock.after(2 * network.latency() + network.lateness(), lambda: self._deliver(delivery))

    def _deliver(self, delivery: Delivery) -> None:
        if self._connected():
            self._over = True
            delivery()

    def _lose(self) -> None:
        """A lost message is noticed at once when the connection breaks, otherwise only by the timeout."""
        if self._network.strikes(0.5):
            self._network.clock.after(self._network.latency(), lambda: self._fail("connection reset"))

    def _fail(self, cause: str) -> None:
        if not self._over:
            self._over = True
            self._failed(cause)
