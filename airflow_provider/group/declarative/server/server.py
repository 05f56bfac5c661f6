"""Serves shards: takes part in the consumer group of all coordinators, and serves the shards that it is assigned."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from airflow_provider.group.declarative.protocol.exchange import RawRequest
from airflow_provider.group.declarative.protocol.sharding import (
    COORDINATORS,
    DEFAULT_LAYOUT,
    RECORDS_TOPIC,
    REQUESTS_TOPIC,
    Layout,
)
from airflow_provider.group.declarative.server.configured_tasks import JobsFollower
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.migration.bridges import Bridges
from airflow_provider.group.declarative.server.ports import Machine
from airflow_provider.group.declarative.server.request_handling.inbox import FULL
from airflow_provider.group.declarative.server.shard import Shard, bearable_s
from airflow_provider.group.declarative.server.shard_records.handled import check_shards
from airflow_provider.group.declarative.server.shard_records.kafka_log import KafkaShardLog
from airflow_provider.group.declarative.server.shard_topics import ShardTopics
from airflow_provider.group.declarative.server.topic_watch import TopicWatch
from airflow_provider.kafka.clock import now_ms
from airflow_provider.kafka.error_backoff import Resting
from airflow_provider.kafka.settings import KafkaSettings, principal_of
from airflow_provider.kafka.topics.administration.lasting_admin import LastingAdmin
from airflow_provider.kafka.topics.client_errors import UNKNOWN_TOPIC, tell
from airflow_provider.kafka.topics.consuming import take_from
from airflow_provider.kafka.topics.errors import LastingError, RightsError, TopicError
from airflow_provider.kafka.topics.librdkafka import COMMON, make_client
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.rights import Operation, Right
from airflow_provider.kafka.trouble import Trouble

log: Final = logging.getLogger(__name__)

_POLL_S: Final = 0.05
"""How long a poll may take. Orders of other threads (a shard is loaded) wait for its end; requests do not."""
_BATCH: Final = 1_000
_PREPARE_S: Final = 30.0
_REVOKED_S: Final = 10.0
"""How long to wait for the thread of a revoked shard. Until then, no other coordinator gets the shard."""
_FIRST_REST_S: Final = 1.0
_STEADY_S: Final = 10.0
"""After this time all is well, even if this process was assigned no shard."""
_FENCED_REST_S: Final = 3.0
"""How long to wait at most before a shard that another coordinator has taken is taken back, if it is still assigned
here."""
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001
_DOWN: Final = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001


class ShardObserver(Protocol):
    """Hears how shards are served in this process. It neither blocks nor raises, and is called by one thread."""

    def unserved(self, unserved_s: Mapping[int, float]) -> None:
        """Called again and again while shards can be served.

        :param unserved_s: for how many seconds each shard of this process has not been served
        """

    def failed(self) -> None:
        """No shard can be served here, although some may have to be. Called for each try."""


class ShardServer:
    """Serves the shards that the consumer group assigns to it. It has one thread, and one more for each shard.

    :param settings: the connection
    :param machine: makes an empty state machine
    :param make: how many partitions missing topics get
    :param when_connected: called once, before shards are served, with a client that can ask for brokers' settings; must
        not raise
    :param bridges: the bridges to classic groups; None: groups have none
    :param observer: hears how shards are served; None: nobody does
    :ivar problem: why no shards are served, if this is known
    :ivar served: the shards that are loaded in this process
    """

    def __init__(
        self,
        settings: KafkaSettings,
        machine: Callable[[], Machine],
        *,
        make: Layout = DEFAULT_LAYOUT,
        when_connected: Callable[[LastingAdmin], None] | None = None,
        bridges: Bridges | None = None,
        observer: ShardObserver | None = None,
    ) -> None:
        self._observer = observer
        self._when_connected = when_connected
        self._config = settings.librdkafka()
        self._machine = machine
        self._make = make
        self._layout = make
        self._outage = Outage(settings.bootstrap_servers)
        self._watch = TopicWatch(self._outage)
        self._trouble = Trouble()
        self._default_ms = machine().shortest_session_ms
        self._sessions_ms: dict[int, int] = {}
        self._shards: dict[int, Shard] = {}
        self._paused: set[int] = set()
        self.served: set[int] = set()
        self._jobs = JobsFollower(settings)
        self._bridges = bridges
        self._orders: queue.SimpleQueue[Callable[[Consumer], None]] = queue.SimpleQueue()
        self._group: object = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cospark-shards", daemon=True)
        self.problem: TopicError | None = None

    @property
    def refusal(self) -> LastingError | None:
        """Why no shards are served, if that lasts until people act."""
        return self.problem if isinstance(self.problem, LastingError) else None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Finish what has begun, and leave the shards to other coordinators. Returns when all threads have ended."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        resting = Resting(_FIRST_REST_S, now_ms)
        while not self._closing.is_set():
            resting.begin()
            try:
                self._prepare()
                self._serve()
            except TopicError as wrong:
                self.problem = wrong
                if self._trouble.is_news(str(wrong)):
                    since = self._trouble.lasting("; none has been for")
                    log.warning("no shards are served: %s; trying again until some can be%s", wrong, since)
            except Exception as fault:
                if self._trouble.is_news(repr(fault)):
                    since = self._trouble.lasting("; none has been for")
                    log.exception("no shards are served; trying again until some can be%s", since)
            if self._observer is not None and not self._closing.is_set():
                self._observer.failed()
            self._closing.wait(resting.fault(bearable_s(min((self._default_ms, *self._sessions_ms.values())))))
        self._jobs.close()

    def _prepare(self) -> None:
        """Create missing topics, and find the number of partitions.

        :raises TopicError: the topics can't be created or used, or groups are served in another number of shards
        """
        with contextlib.closing(ShardTopics(self._config, self._outage)) as topics:
            self._layout = asyncio.run(topics.prepare_shards(timeout_s=_PREPARE_S, make=self._make))
        check_shards(self._config, self._layout.shards)
        self.problem = None

    def _serve(self) -> None:
        """Serve until this is closed.

        :raises TopicError: shards can't be served any more
        """
        with contextlib.closing(LastingAdmin(self._config, self._outage)) as admin:
            when_connected, self._when_connected = self._when_connected, None
            if when_connected is not None:
                when_connected(admin)
            self._watch.begin(admin, self._layout)
            self._serve_watched(admin)

    def _serve_watched(self, admin: LastingAdmin) -> None:
        """Serve until this is closed, or a topic turns out to be another one."""
        consumer, steady_at = make_client(Consumer, self._consumer_config()), time.monotonic() + _STEADY_S
        try:
            consumer.subscribe([REQUESTS_TOPIC], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
            while not self._closing.is_set():
                self._turn(consumer)
                self._watch.look(admin)
                if self._shards or time.monotonic() > steady_at:
                    self._log_recovery()
        except KafkaException as failed:
            raise ShardError(f"the requests can't be read: {failed.args[0].str()}") from failed
        finally:
            with contextlib.suppress(KafkaException, RuntimeError):
                consumer.close()
            self._drop(list(self._shards))

    def _log_recovery(self) -> None:
        """Log that shards can be served again. Perhaps other coordinators serve them all."""
        after_s = self._trouble.over()
        if after_s is not None:
            log.info("shards can be served again, after %.1f s", after_s)

    def _turn(self, consumer: Consumer) -> None:
        messages = take_from(consumer, wait_s=_POLL_S, most=_BATCH)
        self._group = consumer.consumer_group_metadata()
        self._hand_out(messages)
        while not self._orders.empty():
            self._orders.get()(consumer)
        for number, shard in self._shards.items():
            if number in self.served and (len(shard.inbox) > FULL) is not (number in self._paused):
                self._pause(consumer, number, paused=number not in self._paused)
        if self._observer is not None:
            self._observer.unserved({number: shard.unserved_s for number, shard in self._shards.items()})

    def _pause(self, consumer: Consumer, number: int, *, paused: bool) -> None:
        partition = [TopicPartition(REQUESTS_TOPIC, number)]
        if paused:
            self._paused.add(number)
            consumer.pause(partition)
        else:
            self._paused.discard(number)
            consumer.resume(partition)

    def _hand_out(self, messages: Iterable[Message]) -> None:
        requests: defaultdict[int, list[RawRequest]] = defaultdict(list)
        ends: dict[int, int] = {}
        for message in messages:
            error, number, offset = message.error(), message.partition(), message.offset()
            if error is None:
                requests[number or 0].append(RawRequest(offset or 0, message.key(), message.value()))
            elif error.code() == _END:
                ends[number or 0] = offset or 0
            else:
                self._on_consumer_error(error)
        for number, raw in requests.items():
            if number in self._shards:
                self._shards[number].inbox.put(raw)
        for number, end in ends.items():
            if number in self._shards:
                self._shards[number].inbox.reached(end)

    def _on_consumer_error(self, error: KafkaError) -> None:
        """Handle an error of the consumer.

        :raises TopicError: it does not go away by itself
        """
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise RightsError((Right(COORDINATORS, Operation.READ, "group"),), principal_of(self._config))
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise RightsError((Right(REQUESTS_TOPIC, Operation.READ),), principal_of(self._config))
        if error.code() in UNKNOWN_TOPIC:
            raise ShardError(f"the requests can't be read: {error.str()}")
        log.info("reading requests: %s", error.str())  # the consumer tries again by itself

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        consumer.incremental_assign(list(partitions))
        self._group = consumer.consumer_group_metadata()
        for partition in partitions:
            self._begin(consumer, partition.partition)

    def _begin(self, consumer: Consumer, number: int) -> None:
        """Start the thread of a shard. Requests wait in their topic until the shard is loaded."""
        self._pause(consumer, number, paused=True)
        config, shards = self._config, self._layout.shards
        shard = self._shards[number] = Shard(
            number,
            self._layout,
            machine=self._machine,
            open_log=lambda: KafkaShardLog(
                config,
                number,
                shards,
                group=lambda: self._group,
                renewed=self._watch.was_renewed(RECORDS_TOPIC),
            ),
            now_ms=now_ms,
            when_loaded=lambda: self._orders.put(lambda _: self._ready(shard)),
            when_fenced=lambda: self._orders.put(lambda consumer: self._fenced(consumer, shard)),
            when_starved=lambda wrong: self._orders.put(lambda _: self._starved(shard, wrong)),
            when_groups_change=lambda groups: self._follow(shard, groups),
            look=lambda group: self._jobs.look(group, shard.inbox.put_seen),
            bridges=self._bridges,
            session_ms=self._sessions_ms.get(number),
        )
        shard.start()

    def _follow(self, shard: Shard, groups: frozenset[str]) -> None:
        """Follow the jobs of a shard's groups. With bridges, the bridge says which tasks are configured."""
        if self._bridges is None:
            self._jobs.follow(shard.shard, groups, shard.inbox.put_jobs)

    def _ready(self, shard: Shard) -> None:
        if self._shards.get(shard.shard) is shard:
            self.served.add(shard.shard)

    def _starved(self, shard: Shard, wrong: ShardError) -> None:
        """Have this process serve with a new consumer, because this one reads no more.

        :raises ShardError: ``wrong``
        """
        if self._shards.get(shard.shard) is shard:
            raise wrong

    def _fenced(self, consumer: Consumer, shard: Shard) -> None:
        """Serve a fenced shard again if this process still has it after a pause: a former coordinator has fenced it."""
        if self._shards.get(shard.shard) is not shard:
            return
        self.served.discard(shard.shard)
        self._sessions_ms[shard.shard] = shard.session_ms
        self._jobs.follow(shard.shard, frozenset(), shard.inbox.put_jobs)
        self._pause(consumer, shard.shard, paused=True)

        def begin_again(consumer: Consumer) -> None:
            if self._shards.get(shard.shard) is shard and not self._closing.is_set():
                (begins,) = consumer.committed([TopicPartition(REQUESTS_TOPIC, shard.shard)], timeout=_PREPARE_S)
                if begins.error is not None:
                    raise ShardError(f"where shard {shard.shard} goes on is not known: {begins.error.str()}")
                if begins.offset < 0:  # no request was handled yet
                    begins.offset = OFFSET_BEGINNING
                consumer.seek(begins)
                self._begin(consumer, shard.shard)

        timer = threading.Timer(min(_FENCED_REST_S, bearable_s(shard.session_ms)), self._orders.put, (begin_again,))
        timer.daemon = True
        timer.start()

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._drop([partition.partition for partition in partitions])
        consumer.incremental_unassign(list(partitions))

    def _lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        log.warning("the shards of this process were assigned to other coordinators: it was silent for too long")
        self._revoked(consumer, partitions)

    def _drop(self, numbers: Iterable[int]) -> None:
        ending = [shard for number in numbers if (shard := self._shards.pop(number, None)) is not None]
        for shard in ending:
            self.served.discard(shard.shard)
            self._paused.discard(shard.shard)
            shard.end()
        for shard in ending:
            if not shard.join(_REVOKED_S):
                log.warning("the thread of shard %d has not ended in time", shard.shard)
            self._sessions_ms[shard.shard] = shard.session_ms
            if shard.spoken_of:
                log.info("shard %d is no longer served here", shard.shard)
            self._jobs.follow(shard.shard, frozenset(), shard.inbox.put_jobs)  # after all calls of its thread

    def _consumer_config(self) -> dict[str, Any]:
        return {
            **self._config,
            **COMMON,
            "group.id": COORDINATORS,
            "group.protocol": "consumer",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # The committed offset is only known when a transaction of an earlier coordinator has ended.
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 200,
            "fetch.queue.backoff.ms": 20,
            "fetch.error.backoff.ms": 50,
            "logger": log,
            "error_cb": self._on_error,
        }

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != _DOWN:
            tell(self._outage, error)
        elif not self._closing.is_set():
            self._outage.went_away(error.str())
