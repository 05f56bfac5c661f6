"""Numbered rows, produced at a steady rate into all topics: by their numbers what is lost or doubled is seen."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

_TICK_S: Final = 0.2
_FLUSH_S: Final = 120.0
_TEXT: Final = "a row of about a hundred bytes, so that there is something to read and to write"
FIELDS: Final = "n LONG, text STRING"


class Rows:
    """Rows of the topics, numbered from 0 in each topic.

    :param rate: rows per second of each topic
    """

    def __init__(self, bootstrap_servers: str, rate: float) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        settings: dict[str, Any] = {"acks": "all", "enable.idempotence": True, "linger.ms": 50}
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, **settings})
        self._rate = rate
        self._next: dict[str, int] = {}
        self._since: dict[str, float] = {}
        self._failed: list[str] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Rows:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def make(self, names: Iterable[str], *, rows: int) -> None:
        """Make topics that have so many rows."""
        made = list(names)
        for done in self._admin.create_topics([NewTopic(name, 1, 1) for name in made]).values():
            done.result()
        with self._lock:
            self._next |= dict.fromkeys(made, 0)
            for _ in range(rows):
                for name in made:
                    self._one(name)
        self._flush()

    def go_on(self, names: Iterable[str]) -> None:
        """Produce at the rate from now on."""
        with self._lock:
            self._since |= {name: time.monotonic() - self._next[name] / self._rate for name in names}

    def stop(self) -> None:
        """Produce nothing more.

        :raises RuntimeError: if a row has not arrived in its topic
        """
        with self._lock:
            self._since.clear()
        self._flush()
        if self._failed:
            raise RuntimeError(f"{len(self._failed)} rows were not produced: {self._failed[0]}")

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each topic has, or gets at once."""
        with self._lock:
            return dict(self._next)

    def _run(self) -> None:
        while not self._ended.wait(_TICK_S):
            now = time.monotonic()
            with self._lock:
                for name, since in self._since.items():
                    while self._next[name] < (now - since) * self._rate:
                        self._one(name)
            self._producer.poll(0)

    def _one(self, topic: str) -> None:
        value = json.dumps({"n": self._next[topic], "text": _TEXT})
        self._next[topic] += 1
        while True:
            try:
                return self._producer.produce(topic, value, on_delivery=self._told)
            except BufferError:
                self._producer.poll(0.1)

    def _told(self, error: KafkaError | None, _row: Message) -> None:
        if error is not None:
            self._failed.append(str(error))

    def _flush(self) -> None:
        if left := self._producer.flush(_FLUSH_S):
            raise RuntimeError(f"{left} rows were not produced within {_FLUSH_S:.0f} s")
