"""Creates the topics of a group, checks rights, and asks for the ends of topics."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import NewTopic, TopicDescription

from airflow_provider.kafka.settings import principal_of
from airflow_provider.kafka.topics.administration.compaction import warn_of_deletion
from airflow_provider.kafka.topics.administration.lasting_admin import Answer, LastingAdmin
from airflow_provider.kafka.topics.administration.partition_ends import End
from airflow_provider.kafka.topics.administration.shared_end_offsets import EndOffsets
from airflow_provider.kafka.topics.client_errors import UNKNOWN_TOPIC
from airflow_provider.kafka.topics.errors import (
    BrokerAwayError,
    NoTopicError,
    PartitionsError,
    RightsError,
    TopicError,
    TopicRightsError,
)
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.rights import Needs, Operation
from airflow_provider.state.records import TopicNames
from airflow_provider.values.deadlines import Deadline

T = TypeVar("T")

_EVENTS_KEPT_MS: Final = 7 * 24 * 60 * 60 * 1_000
# Compaction leaves the newest segment alone. If it is small, a new worker has little to read.
_SEGMENT_BYTES: Final = 16 * 1024 * 1024
_BROKER_DEFAULT: Final = -1
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5
_PROPAGATION_S: Final = 1.0
_LEAST_S: Final = 0.1
"""How long a request may take if the time is nearly over."""

_NO_RIGHT: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_NOT_NOW: Final = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_CONTROLLER,
        KafkaError._NOENT,  # noqa: SLF001  "No leaders found"
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    }
)


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic that exists.

    :param partitions: the number of partitions; 0 if this user has no right to know it
    :param allowed: what this user may do with it
    """

    partitions: int
    allowed: frozenset[Operation]


class TopicAdmin:
    """Sends requests about topics to brokers.

    It has connections of its own. On the reader's, a request would wait for the fetch that waits for records.

    :param config: librdkafka's settings of the connection
    :param outage: is told of errors of the connection
    :raises LastingError: if librdkafka refuses the settings
    """

    def __init__(self, config: Mapping[str, Any], outage: Outage) -> None:
        self._outage = outage
        self._config = config
        self._principal = principal_of(config)
        self._admin = LastingAdmin(config, outage)
        self._ends = EndOffsets(config)

    def close(self) -> None:
        """Close the clients as soon as no question is open."""
        self._admin.close()
        self._ends.close()

    async def prepare(self, topics: TopicNames, needs: Needs, *, timeout_s: float) -> None:
        """Check that the user has the rights on a group's topics, and create missing topics if ``needs`` says so, with
        the broker's default number of replicas. Warn of topics that lose what is old.

        :raises NoTopicError: if a topic is missing and ``needs`` does not say to create it
        :raises RightsError: if a topic is missing and may not be created, or rights are lacking; it names all of them
        :raises RefusedError: if the broker refuses the connection
        :raises BrokerAwayError: if no broker answers in time
        :raises PartitionsError: if a topic has more than one partition
        :raises TopicError: if a topic can't be created
        """
        missing = await self._check(topics, needs, timeout_s)
        if missing and not needs.makes_topics:
            raise NoTopicError(missing[0])
        if missing:
            await self._make(missing, topics, timeout_s)
            await self._check(topics, needs, timeout_s)
        if needs.makes_topics:
            await warn_of_deletion(self._admin, (topics.jobs, topics.status), timeout_s=timeout_s)

    async def _check(self, topics: TopicNames, needs: Needs, timeout_s: float) -> list[str]:
        """Check the rights on the topics that exist.

        :returns: the topics that do not exist
        """
        allowed: dict[str, frozenset[Operation]] = {}
        missing = []
        for topic in topics.all:
            found = await self.look_at(topic, timeout_s=timeout_s)
            if found is None:
                missing.append(topic)
                continue
            allowed[topic] = found.allowed
            if found.partitions > 1:
                raise PartitionsError(
                    f"the topic {topic!r} has {found.partitions} partitions, but must have exactly one, because the"
                    " order of its records matters: delete it (it is created again), or choose another name for the"
                    " group"
                )
        lacking = list(needs.lacking(topics, allowed))
        if lacking:
            raise RightsError(lacking, self._principal)
        return missing

    async def end_offsets(self, topics: Iterable[str], *, timeout_s: float) -> dict[str, int]:
        """The offset that each topic's next record will have.

        :raises NoTopicError: if a topic does not exist
        :raises TopicRightsError: if it may not be described
        :raises BrokerAwayError: if no broker answers in time
        """
        return await self._ends_of(tuple(topics), timeout_s=timeout_s, appears_s=_PROPAGATION_S)

    async def groups(self, *, timeout_s: float) -> list[str]:
        """The groups whose topics this connection can see.

        :raises RefusedError: if the broker refuses the connection
        :raises BrokerAwayError: if no broker answers in time
        """
        doing, deadline = "listing the topics", Deadline(timeout_s)
        try:
            # Listing blocks a thread until its timeout, so first check that a broker answers.
            known = self._admin.ask(
                doing,
                lambda client, most_s: {"": client.describe_cluster(request_timeout=most_s)},
                timeout_s=timeout_s,
            )
            await self._answer("", known[""])
            listing = self._admin.ask(
                doing,
                lambda client, most_s: {"": _in_thread(lambda: client.list_topics(timeout=most_s))},
                timeout_s=deadline.left_s(least_s=_LEAST_S),
            )
            listed = await self._answer("", listing[""])
        except _TopicFailure as failure:
            raise self._explain(failure, "DESCRIBE", doing) from failure
        names = set(listed.topics)
        suffix = TopicNames.of("").jobs
        groups = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
        return sorted(group for group in groups if group and TopicNames.of(group).status in names)

    async def look_at(self, topic: str, *, timeout_s: float) -> FoundTopic | None:
        """Describe a topic, with this user's rights. None if it does not exist.

        :raises RefusedError: if the broker refuses the connection
        :raises BrokerAwayError: if no broker answers in time
        """
        doing = f"looking for the topic {topic!r}"
        try:
            described = await self._describe(topic, doing, timeout_s)
        except _TopicFailure as failure:
            if failure.code in UNKNOWN_TOPIC:
                return None
            if failure.code in _NO_RIGHT:
                return FoundTopic(0, frozenset())
            raise self._explain(failure, "DESCRIBE", doing) from failure
        self._outage.is_back()
        granted = {operation.name for operation in described.authorized_operations or ()}
        # An old broker does not tell the rights. Then everything counts as allowed: a refusal shows when it happens.
        allowed = frozenset(operation for operation in Operation if not granted or operation.value in granted)
        return FoundTopic(len(described.partitions), allowed)

    async def _make(self, missing: list[str], topics: TopicNames, timeout_s: float) -> None:
        await self.make({topic: (1, _settings_of(topic, topics)) for topic in missing}, timeout_s=timeout_s)
        await self.appear(topics.all, timeout_s=timeout_s)

    async def appear(self, made: Iterable[str], *, timeout_s: float) -> None:
        """Wait until topics that were just made can be used: brokers may not know them at first.

        :raises BrokerAwayError: if no broker answers in time
        :raises TopicError: if they can't be used by then
        """
        await self._ends_of(tuple(made), timeout_s=timeout_s, appears_s=timeout_s)

    async def make(self, missing: Mapping[str, tuple[int, Mapping[str, str]]], *, timeout_s: float) -> None:
        """Create topics, with the broker's default number of replicas. It is no error if one exists by now.

        :param missing: for each name the number of partitions, and the topic's settings
        :raises TopicRightsError: if one may not be created
        :raises BrokerAwayError: if no broker answers in time
        :raises TopicError: if one can't be created
        """
        new = [NewTopic(topic, count, _BROKER_DEFAULT, config={**config}) for topic, (count, config) in missing.items()]
        doing = f"creating {_named(missing)}"
        answers = self._admin.ask(
            doing, lambda client, most_s: client.create_topics(new, request_timeout=most_s), timeout_s=timeout_s
        )
        for topic, answer in answers.items():
            try:
                await self._answer(topic, answer)
            except _TopicFailure as failure:
                if failure.code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._explain(failure, "CREATE", f"creating the topic {topic!r}") from failure

    async def _ends_of(self, topics: tuple[str, ...], *, timeout_s: float, appears_s: float) -> dict[str, int]:
        """Ask until there is an answer: a topic that was just created is unknown for a moment, and then has no leader.
        A connection may have died silently, which librdkafka notices before the time is over.

        :param appears_s: how long a topic may be unknown
        """
        doing = f"asking for the ends of {', '.join(topics)}"
        asked_at, pause_s, said = time.monotonic(), _FIRST_PAUSE_S, ""
        while True:
            deadline = Deadline(max(pause_s, asked_at + timeout_s - time.monotonic()))
            try:
                ends = await self._ask(topics, doing, deadline)
            except BrokerAwayError as late:
                said = said or late.reason
                if time.monotonic() + pause_s > asked_at + timeout_s:
                    raise BrokerAwayError(late.servers, doing, self._outage.reason or said) from None
            except _TopicFailure as failure:
                said = str(failure)
                may_last_s = {**dict.fromkeys(UNKNOWN_TOPIC, appears_s), **dict.fromkeys(_NOT_NOW, timeout_s)}
                if time.monotonic() + pause_s > asked_at + may_last_s.get(failure.code, 0.0):
                    raise self._explain(failure, "READ", doing) from failure
            else:
                self._outage.is_back()
                return ends
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _ask(self, topics: tuple[str, ...], doing: str, deadline: Deadline) -> dict[str, int]:
        ends = self._ends
        asked = self._admin.expect(
            ends.ask(topics), doing, timeout_s=deadline.left_s(), discard=lambda: self._replace(ends)
        )
        try:
            answers = await self._answer(topics[0], asked)
            return {topic: _known(topic, answers[topic]) for topic in topics}
        except _TopicFailure:
            # Only a description tells whether the topic or its leader is missing, or the right to see it.
            for topic in topics:
                await self._describe(topic, doing, deadline.left_s(least_s=_LEAST_S))
            raise

    def _replace(self, ends: EndOffsets) -> None:
        """Let others ask for ends, unless they do so already."""
        if self._ends is ends:
            self._ends = EndOffsets(self._config)
            ends.close()

    async def _describe(self, topic: str, doing: str, timeout_s: float) -> TopicDescription:
        asked = self._admin.ask(
            doing,
            lambda client, most_s: client.describe_topics(
                TopicCollection([topic]), request_timeout=most_s, include_authorized_operations=True
            ),
            timeout_s=timeout_s,
        )
        return await self._answer(topic, asked[topic])

    async def _answer(self, topic: str, awaited: Answer[T]) -> T:
        try:
            return await self._admin.answer(awaited)
        except KafkaException as failed:
            raise _TopicFailure(topic, failed.args[0]) from failed

    def _explain(self, failure: _TopicFailure, operation: str, doing: str) -> TopicError:
        if failure.code in _NO_RIGHT:
            return TopicRightsError(failure.topic, operation, self._principal)
        if failure.code in UNKNOWN_TOPIC:
            return NoTopicError(failure.topic)
        if failure.code in _NOT_NOW:
            outage = self._outage
            return outage.refusal or BrokerAwayError(outage.servers, doing, outage.reason or str(failure))
        return TopicError(f"{doing} failed: {failure}")


class _TopicFailure(Exception):  # noqa: N818  never leaves this module
    """An error of a broker or of librdkafka, and the topic that it concerns."""

    def __init__(self, topic: str, error: KafkaError) -> None:
        super().__init__(error.str())
        self.topic = topic
        self.code = error.code()


def _in_thread(call: Callable[[], T]) -> Future[T]:
    """Make a call that blocks in a thread, which ends with it."""
    made: Future[T] = Future()
    made.set_running_or_notify_cancel()

    def make() -> None:
        try:
            made.set_result(call())
        except Exception as failed:  # noqa: BLE001  it is raised at the caller
            made.set_exception(failed.with_traceback(None))  # which would keep the future, and what the call uses

    threading.Thread(target=make, name="cospark-topic-list", daemon=True).start()
    return made


def _named(topics: Iterable[str]) -> str:
    names = [*map(repr, topics)]
    return f"the topic{'s' if names[1:] else ''} {', '.join(names)}"


def _known(topic: str, end: End) -> int:
    if isinstance(end, KafkaError):
        raise _TopicFailure(topic, end)
    return end


def _settings_of(topic: str, topics: TopicNames) -> dict[str, str]:
    if topic == topics.events:
        return {"cleanup.policy": "delete", "retention.ms": str(_EVENTS_KEPT_MS)}
    return {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT_BYTES)}
