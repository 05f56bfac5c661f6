"""Serves one shard: a batch of requests in, one transaction out. It has no thread and no Kafka client of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from airflow_provider.group.declarative.coordinator.events import (
    Effects,
    Event,
    JobsRead,
    RequestArrived,
    RequestId,
    TimerFired,
)
from airflow_provider.group.declarative.coordinator.requesters import Requester, requester_of
from airflow_provider.group.declarative.protocol.exchange import (
    Asked,
    RawRequest,
    Refused,
    ReplyAddress,
    Unanswerable,
    Write,
    read_request,
)
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, Layout
from airflow_provider.group.declarative.protocol.wire.errors import MalformedMessageError
from airflow_provider.group.declarative.protocol.wire.messages.apis import RequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupAlterConfigsRequest
from airflow_provider.group.declarative.protocol.wire.records import decode_record, encode_record
from airflow_provider.group.declarative.server.errors import AbortedError, BlamedError, OversizedError, ShardError
from airflow_provider.group.declarative.server.migration.bridges import BridgeWord
from airflow_provider.group.declarative.server.migration.classic_workers import Seen
from airflow_provider.group.declarative.server.migration.crossing import Crossing
from airflow_provider.group.declarative.server.migration.joining import Joining, Look, joins
from airflow_provider.group.declarative.server.ports import Machine, ShardLog
from airflow_provider.group.declarative.server.request_handling.faulty import QUARANTINED, Faulty
from airflow_provider.group.declarative.server.request_handling.held import FAILED, Held
from airflow_provider.group.declarative.server.request_handling.order import Order
from airflow_provider.group.declarative.server.request_handling.oversized import Oversized
from airflow_provider.kafka.topics.feeds.complaints import Complaints
from airflow_provider.state.records.envelope import LARGEST_VALUE
from airflow_provider.state.views.topic_view import Unreadable
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Tasks

log: Final = logging.getLogger(__name__)

_TRIES: Final = 5
"""How often a transaction is tried: after an abort, the same is written again. That helps if the consumer group's
generation has changed in the meantime.
"""

_CLOSED: Final = (
    f"the records of this group are gone, because the topic {RECORDS_TOPIC!r} was deleted, or lost by the brokers."
    " Former members may run its tasks for one more session; no worker can join until then"
)

Clock = Callable[[], int]
JobsOf = dict[str, Tasks]


class Serving:
    """The serving of a shard, from loading to an end or an error. After an error, it must be discarded.

    :param held: requests that an earlier instance has not answered
    :param faulty: the requests that the machine could not handle, or whose records are too large, and the workers in
        quarantine: they are refused without it
    :param oversized: jobs that are too large
    :param look: starts to check a group for classic workers, before a member joins a group without members: they would
        run the same tasks. None: not checked
    :param crossing: the bridges of groups, if they have any
    """

    def __init__(
        self,
        shard: int,
        layout: Layout,
        machine: Machine,
        shard_log: ShardLog,
        *,
        held: Held,
        faulty: Faulty,
        oversized: Oversized,
        now_ms: Clock,
        look: Look | None = None,
        crossing: Crossing | None = None,
    ) -> None:
        self._shard = shard
        self._layout = layout
        self._machine = machine
        self._log = shard_log
        self._held = held
        self._faulty = faulty
        self._oversized = oversized
        self._now_ms = now_ms
        self._crossing = crossing
        self._joining = Joining(machine, look=look, crossing=crossing, refuse=self._refuse)
        self._closed_until_ms = 0
        self._order = Order()
        self._groups: set[str] = set()
        self._writes: list[Write] = []
        self._handled_to: int | None = None
        self._under_way: set[int] = set()
        self._begun: set[int] = set()
        self._requester: Requester | None = None
        self._jobs_under_way: JobsOf = {}
        self.timer_at_ms: int | None = None
        self._complaints = Complaints(f"shard {shard} of the requests")
        self._shortest_ms = machine.shortest_session_ms
        self._uncommitted_shortest_ms = self._shortest_ms

    @property
    def shortest_session_ms(self) -> int:
        """The shortest session of any group, as members may have been told: what is not committed does not count."""
        return self._shortest_ms

    @property
    def groups(self) -> Collection[str]:
        """The groups with members. Their jobs have to be followed."""
        return self._groups

    def load(self) -> int:
        """Replay the records, and give every member a fresh session.

        Only the last record of each key is replayed, as after compaction: to decode all would take most of the time, in
        which nothing moves.

        :returns: how many records there are
        :raises FencedError, ShardError: it can't be loaded
        """
        complaints, count, groups = Complaints(f"{RECORDS_TOPIC}-{self._shard}"), 0, set()
        last: dict[bytes | None, tuple[bytes | None, int]] = {}
        for key, value, offset in self._log.load():
            count += 1
            last.pop(key, None)  # keeps the order of the offsets
            last[key] = value, offset
        for key, (value, offset) in last.items():
            try:
                record = decode_record(key or b"", value)
                self._machine.replay(record)
                groups.add(record.key.group_id)
            except MalformedMessageError as wrong:
                complaints.add(Unreadable(key=key, offset=offset, reason=str(wrong)))
        complaints.tell()
        if self._log.forgotten:
            self._close()
        self._log.grants(self._machine.longest_session_ms)
        self._shortest_ms = self._uncommitted_shortest_ms = self._machine.shortest_session_ms
        self._writes += self._held.refuse_all(
            KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            "the coordinator has loaded the group again: send the request again",
            faulty=self._faulty,
        )
        self._apply(self._machine.loaded(self._now_ms()))
        self._note(groups)
        self._commit()
        if self._crossing is not None:
            self._crossing.begin(self._groups)
        return count

    def _close(self) -> None:
        """Let no member join for the longest session of any, because the records were lost. Until then, former members
        may believe that their tasks are their own: each is told that it is not a member, or stops by itself.
        """
        session_ms = max(self._machine.session_ms, self._log.granted_ms)
        self._closed_until_ms = self._now_ms() + session_ms
        log.warning(
            "shard %d: the records of its groups are gone: the topic %r was deleted, or lost by the brokers. Their"
            " workers stop their tasks, and join again in %.0f s, when no former member can run tasks any more",
            self._shard,
            RECORDS_TOPIC,
            session_ms / 1000,
        )

    def handle(
        self,
        requests: Sequence[RawRequest],
        jobs: JobsOf,
        seen: Iterable[Seen] = (),
        words: Iterable[BridgeWord] = (),
    ) -> None:
        """Handle requests and news, and write the result in one transaction.

        Requests that lead to no record or reply, such as held heartbeats, are committed as handled with the next
        transaction. Until then, another coordinator would begin with them, in the same state as here.

        :param requests: in the order of their offsets
        :param jobs: the configured tasks of groups, if they have changed
        :param seen: what was found of groups in the classic protocol
        :param words: what the bridges of groups say
        :raises FencedError, ShardError: the result may not be committed
        :raises BlamedError: the machine has failed at requests or jobs
        """
        now_ms = self._now_ms()
        read = {raw.offset for raw in requests}
        self._under_way, self._begun, self._requester = read, set(), None
        try:
            events = self._events(requests, jobs, seen, words, now_ms)
            self._apply(self._machine.handle_all(self._noted(events, read), now_ms))
        except Exception as fault:
            self._held.forget(read)
            self._blame(fault)
            raise
        self._complaints.tell()
        if requests:
            self._handled_to = requests[-1].offset + 1
        try:
            self._commit()
        except OversizedError:
            self._faulty.note(read | self._begun)
            self._oversized.note_jobs(jobs)
            self._held.forget(read)
            raise
        except ShardError:
            self._held.forget_answered(read)
            raise

    def fire(self) -> None:
        """Handle the timer.

        :raises FencedError, ShardError: the result may not be committed
        """
        self.timer_at_ms = None
        now_ms = self._now_ms()
        self._apply(self._machine.handle_all([TimerFired(now_ms=now_ms)], now_ms))
        self._commit()

    def hand_over(self) -> None:
        """Refuse all waiting requests, so that they are sent to the next coordinator.

        :raises FencedError, ShardError: another coordinator serves the shard already, or this can't be written
        """
        self._writes += self._held.refuse_all(
            KafkaErrorCode.NOT_COORDINATOR,
            "another coordinator serves the group now: send the request again",
            faulty=self._faulty,
        )
        self._commit()

    def _events(
        self,
        requests: Sequence[RawRequest],
        jobs: JobsOf,
        seen: Iterable[Seen],
        words: Iterable[BridgeWord],
        now_ms: int,
    ) -> Iterator[Event]:
        for group, tasks in jobs.items():
            if not self._oversized.has_jobs(group, tasks):
                yield JobsRead(now_ms=now_ms, group_id=group, tasks=tasks)
        for one in seen:
            yield from self._joining.let_in(one, now_ms)
        for word in words:
            yield from self._joining.hear(word, now_ms)
        for raw in requests:
            asked = self._ask(raw, now_ms)
            if asked is None:
                continue
            self._held.add(raw.offset, asked.address)
            event = RequestArrived(
                now_ms=now_ms,
                request=RequestId(raw.offset),
                body=asked.body,
                client_id=asked.header.client_id,
                client_host=asked.header.client_host,
            )
            # In a closed shard no sender is a member, and each is told so.
            if now_ms < self._closed_until_ms or not self._joining.keeps(event, now_ms):
                yield event

    def _noted(self, events: Iterable[Event], read: set[int]) -> Iterator[Event]:
        """Note which event is handled, and to blame for an exception. Between events, all read requests are."""
        for event in events:
            if isinstance(event, RequestArrived):
                self._under_way, self._requester = {event.request}, self._requester_of(event.body)
                self._begun.add(event.request)
            elif isinstance(event, JobsRead):
                self._jobs_under_way = {event.group_id: event.tasks}
            yield event
            self._under_way, self._requester, self._jobs_under_way = read, None, {}

    def _blame(self, fault: Exception) -> None:
        """Keep from the machine what it has failed at, and a worker whose requests it would fail at again. The
        quarantine outlasts the member's session, so that it joins anew.

        :raises BlamedError: if anything is to blame
        """
        if self._jobs_under_way:
            self._oversized.note_jobs(self._jobs_under_way)
            raise BlamedError(
                f"the tasks of group {next(iter(self._jobs_under_way))!r} could not be handled"
            ) from fault
        self._faulty.note(self._under_way)
        requester = self._requester
        if requester is not None:
            now_ms, for_ms = self._now_ms(), 2 * self._machine.longest_session_ms
            self._faulty.quarantine(requester, now_ms=now_ms, until_ms=now_ms + for_ms)
            raise BlamedError(
                f"a request of {requester} could not be handled; all its requests are refused for {for_ms / 1000:.0f} s"
            ) from fault
        if self._under_way:
            raise BlamedError(f"the requests {sorted(self._under_way)} could not be handled") from fault

    def _ask(self, raw: RawRequest, now_ms: int) -> Asked | None:
        """A request for the machine. None: it is not for the machine, and was refused if that is possible."""
        asked = read_request(raw, shard=self._shard, layout=self._layout)
        if isinstance(asked, Unanswerable):
            self._complaints.add(Unreadable(key=raw.key, offset=raw.offset, reason=asked.reason))
        elif isinstance(asked, Refused):
            self._writes.append(asked.write())
        elif self._order.was_overtaken(asked.address):
            log.info(
                "ignoring a request at offset %d that was overtaken by a later one of the same process", raw.offset
            )
        elif raw.offset in self._faulty:
            self._writes.append(asked.address.refusal(KafkaErrorCode.UNKNOWN_SERVER_ERROR, FAILED))
        elif self._faulty.is_quarantined(self._requester_of(asked.body), now_ms):
            self._writes.append(asked.address.refusal(KafkaErrorCode.UNKNOWN_SERVER_ERROR, QUARANTINED))
        elif now_ms < self._closed_until_ms and _makes_records(asked.body):
            self._writes.append(asked.address.refusal(KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _CLOSED))
        else:
            return asked
        return None

    def _requester_of(self, body: RequestBody) -> Requester | None:
        return requester_of(body, self._machine.instance_of)

    def _refuse(self, request: RequestId, error: KafkaErrorCode, message: str) -> None:
        address = self._held.answer(request)
        if address is not None:
            self._writes.append(address.refusal(error, message))

    def _apply(self, effects: Effects) -> None:
        for record in effects.records:
            key, value = encode_record(record)
            self._writes.append(Write(RECORDS_TOPIC, self._shard, key, value))
        for reply in effects.replies:
            address = self._held.answer(reply.request)
            if address is not None:
                self._writes.append(_reply_or_refusal(address, address.reply(reply.body)))
        self.timer_at_ms = effects.timer_at_ms
        if effects.records:
            self._log.grants(self._machine.longest_session_ms)
            self._uncommitted_shortest_ms = self._machine.shortest_session_ms
            self._note({record.key.group_id for record in effects.records})

    def _note(self, groups: Iterable[str]) -> None:
        for group in groups:
            if self._machine.has_members(group):
                self._groups.add(group)
            else:
                self._groups.discard(group)

    def _commit(self) -> None:
        self._write()
        if self._crossing is not None:
            self._crossing.tell(self._joining.groups)

    def _write(self) -> None:
        writes, self._writes = self._writes, []
        if not writes:
            return
        for tries_left in reversed(range(_TRIES)):
            try:
                self._log.commit(writes, self._handled_to)
                self._held.committed()
                self._shortest_ms = self._uncommitted_shortest_ms
                return
            except AbortedError as aborted:
                if not tries_left:
                    raise
                log.info("%s; writing it again", aborted)


def _makes_records(body: RequestBody) -> bool:
    """Whether a request leads to records even if its group has none."""
    return joins(body) or isinstance(body, ConnectGroupAlterConfigsRequest)


def _reply_or_refusal(address: ReplyAddress, reply: Write) -> Write:
    """The reply, or a refusal if it is too large for the topic. No record depends on the reply."""
    size = len(reply.value or b"")
    if size <= LARGEST_VALUE:
        return reply
    message = (
        f"the reply has {size} bytes, more than the {LARGEST_VALUE} that a record may have: make the group smaller"
    )
    log.warning("%s", message)
    return address.refusal(KafkaErrorCode.UNKNOWN_SERVER_ERROR, message)
