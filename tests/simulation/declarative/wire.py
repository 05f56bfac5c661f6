"""The network between one process and the topics: its requests, its replies, and their faults.

A process writes its requests with one idempotent producer: they are in the topic in order, or not at all. It reads its
replies in order, unless one is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from airflow_provider.group.declarative.member.events import Request, SendRequest
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    Reply,
    RequestBody,
    encode_request,
    request_of,
)

if TYPE_CHECKING:
    from simulation.declarative.process import Process

LATE_MS = (1_000, 15_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """The probability of each fault of a message, from 0 to 1, and the latencies in milliseconds.

    :param double_request: the request is there twice, one after the other
    """

    lose_request: float = 0.0
    double_request: float = 0.0
    lose_reply: float = 0.0
    double_reply: float = 0.0
    late_reply: float = 0.0
    latency_ms: tuple[int, int] = (1, 3)


GOOD = Weather()


@dataclass(frozen=True, slots=True)
class _Asked:
    seq: int
    request: Request
    sent_at_ms: int


class Wire:
    """The connection of one process. It passes on all replies, also duplicates, and late ones after it reported a
    timeout.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ids = count(1)
        self._asked: dict[int, _Asked] = {}
        self._last_arrives = 0
        self._last_heard = 0
        self.reader = process.name.encode()

    @property
    def unwritten_ms(self) -> int:
        """The time until the last request is in its topic."""
        return max(0, self._last_arrives + 1 - self._process.world.clock.now)

    def send(self, command: SendRequest, body: RequestBody) -> None:
        process, world = self._process, self._process.world
        number = next(self._ids)
        asked = self._asked[number] = _Asked(command.seq, command.request, process.now)
        value = encode_request(request_of(body, correlation_id=number, reply_partition=0))
        world.clock.after(
            process.clock.until(process.now + command.timeout_ms),
            lambda: process.nothing_came(asked.seq, asked.request),
        )
        weather = world.weather
        if process.cut_off or self._strikes(weather.lose_request, "lost requests"):
            return
        arrives = max(self._last_arrives, world.clock.now + process.rng.randint(*weather.latency_ms))
        self._last_arrives = arrives
        times = 2 if self._strikes(weather.double_request, "doubled requests") else 1
        for _ in range(times):
            world.clock.after(arrives - world.clock.now, lambda: world.ask(self.reader, value))

    def replied(self, reply: Reply) -> None:
        """A reply to this process has reached its topic."""
        process, weather = self._process, self._process.world.weather
        if process.cut_off or self._strikes(weather.lose_reply, "lost replies"):
            return
        self._deliver(reply)
        if self._strikes(weather.double_reply, "doubled replies"):
            self._deliver(reply)

    def _deliver(self, reply: Reply) -> None:
        process, weather = self._process, self._process.world.weather
        clock = process.world.clock
        arrives = self._last_heard = max(self._last_heard, clock.now + process.rng.randint(*weather.latency_ms))
        late_ms = process.rng.randint(*LATE_MS) if self._strikes(weather.late_reply, "late replies") else 0
        clock.after(arrives - clock.now + late_ms, lambda: self._arrived(reply))

    def _arrived(self, reply: Reply) -> None:
        asked = self._asked.get(reply.header.correlation_id)
        if asked is not None and not self._process.cut_off:
            self._process.answered(asked.seq, asked.sent_at_ms, reply.body)

    def _strikes(self, likelihood: float, kind: str) -> bool:
        if likelihood <= 0 or self._process.rng.random() >= likelihood:
            return False
        self._process.world.struck[kind] += 1
        return True
