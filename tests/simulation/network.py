"""Between a process and the coordinator: latency, and everything that can go wrong on the way."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from simulation.clock import Clock


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
        self._clock = clock
        self._rng = rng

    def latency(self) -> int:
        return self._rng.randint(*self.faults.latency_ms)

    def _strikes(self, likelihood: float) -> bool:
        return likelihood > 0 and self._rng.random() < likelihood

    def send(
        self,
        ask: Callable[[Callable[[Callable[[], None]], None]], None],
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
        done = False

        def fail(cause: str) -> None:
            nonlocal done
            if not done:
                done = True
                failed(cause)

        def deliver(delivery: Callable[[], None]) -> None:
            nonlocal done
            if connected():
                done = True
                delivery()

        def answer(delivery: Callable[[], None]) -> None:
            if self._strikes(self.faults.lose_reply):
                self._break(fail)
                return
            late = self._rng.randint(*self.faults.late_ms) if self._strikes(self.faults.late_reply) else 0
            self._clock.after(self.latency() + late, lambda: deliver(delivery))
            if self._strikes(self.faults.double_reply):
                self._clock.after(self.latency() + self._rng.randint(0, 2_000), lambda: deliver(delivery))

        def arrive() -> None:
            if connected():
                ask(answer)

        self._clock.after(timeout_ms, lambda: fail("timeout"))
        if self._strikes(self.faults.lose_request):
            self._break(fail)
        else:
            self._clock.after(self.latency(), arrive)

    def _break(self, fail: Callable[[str], None]) -> None:
        """A lost message is noticed at once when the connection breaks, otherwise only by the timeout."""
        if self._rng.random() < 0.5:
            self._clock.after(self.latency(), lambda: fail("connection reset"))
