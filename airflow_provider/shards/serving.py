"""One shard while it is served: requests in, one transaction out. It has no thread and no client of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from airflow_provider.coordinator.events import Effects, JobsRead, RequestArrived, RequestId, TimerFired
from airflow_provider.declarative.sharding import RECORDS_TOPIC
from airflow_provider.declarative.wire.errors import MalformedMessageError
from airflow_provider.declarative.wire.records import decode_record, encode_record
from airflow_provider.ledger.topic_view import Unreadable
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.model import Tasks
from airflow_provider.shards.errors import AbortedError
from airflow_provider.shards.machine import Machine, ShardLog
from airflow_provider.shards.order import Order
from airflow_provider.shards.requests import RawRequest, Refused, Sender, Unanswerable, Write, read_request
from airflow_provider.shards.settings import Layout
from airflow_provider.topics.complaints import Complaints

log: Final = logging.getLogger(__name__)

_TRIES: Final = 5
"""An aborted transaction has had no effect: the same is written again. Only if the consumer group's generation has
changed meanwhile, that is likely to help.
"""

Clock = Callable[[], int]
JobsOf = dict[str, Tasks]


class Held:
    """The requests of a shard that are not answered, and where their replies go. It outlives the machine."""

    def __init__(self) -> None:
        self._senders: dict[int, Sender] = {}

    def __len__(self) -> int:
        return len(self._senders)

    def add(self, request: int, sender: Sender) -> None:
        self._senders[request] = sender

    def take(self, request: int) -> Sender | None:
        """None if it has been answered."""
        return self._senders.pop(request, None)

    def refuse_all(self, error_code: KafkaErrorCode, message: str) -> list[Write]:
        """Have those who wait ask again: what they had asked is forgotten."""
        senders, self._senders = list(self._senders.values()), {}
        return [sender.refusal(error_code, message) for sender in senders]


class Serving:
    """From loading to whatever ends it; then it is of no use any more.

    :param held: requests that another one before it has not answered
    :param faulty: the offsets of requests that the machine could not handle: they are answered without it
    """

    def __init__(
        self,
        shard: int,
        layout: Layout,
        machine: Machine,
        shard_log: ShardLog,
        *,
        held: Held,
        faulty: set[int],
        now_ms: Clock,
    ) -> None:
        self._shard = shard
        self._layout = layout
        self._machine = machine
        self._log = shard_log
        self._held = held
        self._faulty = faulty
        self._now_ms = now_ms
        self._order = Order()
        self._groups: set[str] = set()
        self._writes: list[Write] = []
        self.timer_at_ms: int | None = None
        self._complaints = Complaints(f"shard {shard} of the requests")

    @property
    def groups(self) -> Collection[str]:
        """Those with members: what they have to do must be known."""
        return self._groups

    def load(self) -> int:
        """Replay the records, and give every member a fresh session.

        :returns: how many records there are
        :raises FencedError, ShardError: it can't be done
        """
        complaints, count = Complaints(f"{RECORDS_TOPIC}-{self._shard}"), 0
        for key, value, offset in self._log.load():
            count += 1
            try:
                self._machine.replay(decode_record(key or b"", value))
            except MalformedMessageError as wrong:
                complaints.add(Unreadable(key=key, offset=offset, reason=str(wrong)))
        complaints.tell()
        self._writes += self._held.refuse_all(
            KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator has loaded the group anew: ask again"
        )
        self._apply(self._machine.loaded(self._now_ms()))
        self._note(self._machine.groups)
        self._commit(None)
        return count

    def handle(self, requests: Sequence[RawRequest], jobs: JobsOf) -> None:
        """Whatever these lead to, in one transaction.

        :param requests: in the order of their offsets
        :param jobs: what is configured in groups, as far as that has changed
        :raises FencedError, ShardError: nothing of it is to be relied on
        """
        now_ms = self._now_ms()
        for group, tasks in jobs.items():
            self._apply(self._machine.handle(JobsRead(now_ms=now_ms, group_id=group, tasks=tasks)))
        for raw in requests:
            self._ask(raw, now_ms)
        self._complaints.tell()
        self._commit(requests[-1].offset + 1 if requests else None)

    def fire(self) -> None:
        """The timer's time has come.

        :raises FencedError, ShardError: nothing of it is to be relied on
        """
        self.timer_at_ms = None
        self._apply(self._machine.handle(TimerFired(now_ms=self._now_ms())))
        self._commit(None)

    def hand_over(self) -> None:
        """Have those who wait for replies ask again: somebody else will serve them.

        :raises FencedError, ShardError: somebody does already, or it can't be written
        """
        self._writes += self._held.refuse_all(
            KafkaErrorCode.NOT_COORDINATOR, "another coordinator serves the group now: ask again"
        )
        self._commit(None)

    def _ask(self, raw: RawRequest, now_ms: int) -> None:
        asked = read_request(raw, shard=self._shard, layout=self._layout)
        if isinstance(asked, Unanswerable):
            self._complaints.add(Unreadable(key=raw.key, offset=raw.offset, reason=asked.reason))
            return
        if isinstance(asked, Refused):
            self._writes.append(asked.write())
            return
        if self._order.was_overtaken(asked.sender):
            log.info(
                "a request at offset %d was overtaken by a later one of the same process: it is ignored", raw.offset
            )
            return
        if raw.offset in self._faulty:
            message = "the coordinator failed when it handled this request: see its log"
            self._writes.append(asked.sender.refusal(KafkaErrorCode.UNKNOWN_SERVER_ERROR, message))
            return
        self._held.add(raw.offset, asked.sender)
        event = RequestArrived(
            now_ms=now_ms,
            request=RequestId(raw.offset),
            body=asked.body,
            client_id=asked.header.client_id,
            client_host=asked.header.client_host,
        )
        try:
            self._apply(self._machine.handle(event))
        except Exception:
            self._faulty.add(raw.offset)
            self._held.take(raw.offset)
            raise

    def _apply(self, effects: Effects) -> None:
        for record in effects.records:
            key, value = encode_record(record)
            self._writes.append(Write(RECORDS_TOPIC, self._shard, key, value))
        for reply in effects.replies:
            sender = self._held.take(reply.request)
            if sender is not None:
                self._writes.append(sender.reply(reply.body))
        self.timer_at_ms = effects.timer_at_ms
        if effects.records:
            self._note({record.key.group_id for record in effects.records})

    def _note(self, groups: Iterable[str]) -> None:
        known = self._machine.groups
        for group in groups:
            state = known.get(group)
            if state is not None and state.members:
                self._groups.add(group)
            else:
                self._groups.discard(group)

    def _commit(self, next_offset: int | None) -> None:
        writes, self._writes = self._writes, []
        if not writes and next_offset is None:
            return
        for tries_left in reversed(range(_TRIES)):
            try:
                self._log.commit(writes, next_offset)
                return
            except AbortedError as aborted:
                if not tries_left:
                    raise
                log.info("%s; writing it again", aborted)
