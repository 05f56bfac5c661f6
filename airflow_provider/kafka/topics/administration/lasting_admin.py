"""An admin client that outlives what it leaves without an answer."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the builtin one only since Python 3.11
from typing import Any, Final, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from airflow_provider.kafka.topics.administration.asked_client import AskedClient
from airflow_provider.kafka.topics.client_errors import tell
from airflow_provider.kafka.topics.errors import BrokerAwayError, RefusedError, TopicError
from airflow_provider.kafka.topics.librdkafka import COMMON, make_client
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.values.deadlines import Deadline

K = TypeVar("K")
T = TypeVar("T")

_MOST_S: Final = 3_600.0  # that librdkafka takes for one request
_REFUSAL_S: Final = 1.0
"""How long to wait for an answer after a broker has refused the connection: another broker may still answer."""
_LISTEN_S: Final = 0.1
"""How often to look for the errors of connections while waiting for an answer."""
_NO_ANSWER: Final = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001


class Answer(Generic[T]):
    """The answer to one question, or that there was none in time.

    :param told: is done when there is an answer
    :param timeout_s: how long to wait for it, from now
    :param unanswered: called if it does not come in time; returns what to raise then
    """

    def __init__(self, told: Future[T], timeout_s: float, unanswered: Callable[[KafkaError], TopicError]) -> None:
        self.told: Final = told
        self._deadline: Final = Deadline(timeout_s)
        self._unanswered: Final = unanswered

    @property
    def left_s(self) -> float:
        """How long to wait for it."""
        return self._deadline.left_s()

    @property
    def is_due(self) -> bool:
        """Whether :meth:`result` returns at once."""
        return self.told.done() or not self.left_s

    def result(self) -> T:
        """Get the answer. Blocks until it is due. An error is a new one each time: one that ``told`` keeps would keep
        all who have raised it, and they keep ``told``.

        :raises RefusedError: there is none, and a broker refuses the connection
        :raises BrokerAwayError: there is none
        :raises KafkaException: a broker's answer is an error
        """
        try:
            failed = self.told.exception(self.left_s)
        except FutureTimeoutError:
            raise self._unanswered(_NO_ANSWER) from None
        if failed is None:
            return self.told.result()
        if isinstance(failed, KafkaException) and failed.args[0].code() == KafkaError._TIMED_OUT:  # noqa: SLF001
            raise self._unanswered(failed.args[0]) from failed
        raise copy.copy(failed)


class LastingAdmin:
    """Asks with an admin client, which is replaced when a question has no answer in time. librdkafka may know only
    brokers that have gone, or may have lost the question: then a request's own timeout does not help. Thread-safe.

    :param config: librdkafka's settings of the connection
    :param outage: says who the brokers are; is told of errors of the connection
    :raises TopicError: if librdkafka refuses the settings
    """

    def __init__(self, config: Mapping[str, Any], outage: Outage) -> None:
        self._outage: Final = outage
        self._heard: Final[list[KafkaError]] = []
        self._config: Final = {**config, **COMMON, "error_cb": self._heard.append}
        self._lock: Final = threading.Lock()
        self._closed = False
        self._client: AskedClient | None = self._make()
        self._number = 0

    def close(self) -> None:
        """Close the client as soon as no question is open. Does not wait for that. Who asks later has another client,
        for one question.
        """
        with self._lock:
            self._closed = True
            self._drop()

    def ask(
        self,
        doing: str,
        question: Callable[[AdminClient, float], Mapping[K, Future[T]]],
        *,
        timeout_s: float,
    ) -> Mapping[K, Answer[T]]:
        """Ask brokers, without waiting.

        :param doing: what is asked, for errors: it follows "while"
        :param question: sends a request that may take so many seconds
        :raises TopicError: if librdkafka refuses the settings
        """
        with self._lock:
            if self._client is None:
                self._client = self._make()
                self._number += 1
            self._errors()  # drop those from before this question, which may be over
            number, told = self._number, self._client.ask(question, min(timeout_s, _MOST_S), timeout_s=timeout_s)
            if self._closed:
                self._drop()

        def discard() -> None:
            self._discard(number)

        return {each: self.expect(future, doing, timeout_s=timeout_s, discard=discard) for each, future in told.items()}

    def expect(self, told: Future[T], doing: str, *, timeout_s: float, discard: Callable[[], None]) -> Answer[T]:
        """Expect an answer of any client.

        :param discard: called if there is none: lets the next question be asked by another client
        """
        outage = self._outage

        def unanswered(error: KafkaError) -> TopicError:
            discard()
            return outage.refusal or BrokerAwayError(outage.servers, doing, outage.reason or error.str())

        return Answer(told, timeout_s, unanswered)

    async def answer(self, awaited: Answer[T]) -> T:
        """Wait for an answer, but not for long once a broker has refused the connection.

        :raises RefusedError: if a broker refuses the connection
        :raises BrokerAwayError: if there is no answer in time
        :raises KafkaException: if a broker's answer is an error
        """
        refusal: RefusedError | None = None
        with self._outage.watch() as watched:
            told, refused = asyncio.wrap_future(awaited.told), asyncio.wrap_future(watched)
            either: set[asyncio.Future[Any]] = {told, refused}
            try:
                while not (awaited.is_due or refused.done()):
                    pause_s = min(_LISTEN_S, awaited.left_s)
                    await asyncio.wait(either, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
                    with self._lock:
                        errors = self._errors()
                    for error in errors:
                        tell(self._outage, error)
                if not awaited.is_due:
                    await asyncio.wait({told}, timeout=min(_REFUSAL_S, awaited.left_s))
                refusal = self._outage.refusal
                if not awaited.told.done() and refusal is not None:
                    raise refusal
                await asyncio.wait({told}, timeout=awaited.left_s)
                return awaited.result()
            finally:
                for future in either:
                    future.cancel()
                refusal = None  # or it would keep itself, by its traceback

    def _make(self) -> AskedClient:
        return AskedClient(make_client(AdminClient, {**self._config}))

    def _discard(self, number: int) -> None:
        """Let the next question make a new client, unless there is one already."""
        with self._lock:
            if self._number == number:
                self._drop()

    def _drop(self) -> None:
        if self._client is not None:
            self._client.discard()
            self._client = None

    def _errors(self) -> list[KafkaError]:
        """The errors of connections since the last call. An admin client only reports them when it is polled."""
        if self._client is not None:
            self._client.poll()
        heard = [error for error in self._heard if error.code() != KafkaError._ALL_BROKERS_DOWN]  # noqa: SLF001
        self._heard.clear()
        return heard
