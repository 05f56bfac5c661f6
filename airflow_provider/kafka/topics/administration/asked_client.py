"""An admin client that is destroyed in a thread of its own, when the questions that are open on it are over.

No event loop must wait for that. And librdkafka ends the process if one of the client's own threads destroys it, as
Python's garbage collector would if it happened to run there. So nobody but an :class:`AskedClient` keeps a client, and
only the thread of its own drops it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from confluent_kafka.admin import AdminClient

from airflow_provider.kafka.destroying import destroy_apart

K = TypeVar("K")
T = TypeVar("T")

_MARGIN_S: Final = 1.0
"""How long after its deadline a question is over at the latest: librdkafka, too, says then that there is no answer."""


class AskedClient:
    """A client, and the questions that are open on it. Its user lets one thread use it at a time, and not after
    :meth:`discard`.

    :param client: nobody else may keep it
    """

    def __init__(self, client: AdminClient) -> None:
        self._client: AdminClient | None = client
        self._open: frozenset[Future[Any]] = frozenset()
        self._until = 0.0

    def ask(
        self, question: Callable[[AdminClient, float], Mapping[K, Future[T]]], most_s: float, *, timeout_s: float
    ) -> Mapping[K, Future[T]]:
        """Ask, without waiting.

        :param question: sends a request that may take so many seconds
        :param timeout_s: how long its answers are waited for
        """
        assert self._client is not None
        told = question(self._client, most_s)
        self._until = max(self._until, time.monotonic() + timeout_s)
        self._open = frozenset({*(each for each in self._open if not each.done()), *told.values()})
        return told

    def poll(self) -> None:
        """Let the client tell the errors of its connections, without waiting."""
        assert self._client is not None
        self._client.poll(0)

    def discard(self) -> None:
        """Destroy the client as soon as no question is open. Does not wait for that."""
        destroy_apart(self._destroy)

    def _destroy(self) -> None:
        wait(self._open, max(0.0, self._until - time.monotonic()) + _MARGIN_S)
        self._client = None
