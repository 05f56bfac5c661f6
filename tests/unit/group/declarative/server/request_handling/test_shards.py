"""One shard, with a machine that echoes and a log in memory: what is written when, and what happens after faults."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from echo_machine import HEARTBEAT_MS, HELD, RAISES, SILENT, EchoMachine, heartbeat_of
from shard_log import READER, MemoryLog, raw

from airflow_provider.group.declarative.coordinator.events import Effects, Event, JobsRead
from airflow_provider.group.declarative.protocol.exchange import (
    Asked,
    RawRequest,
    Refused,
    Unanswerable,
    Write,
    read_request,
)
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC, Layout, partition_of
from airflow_provider.group.declarative.protocol.wire.messages.apis import (
    RequestBody,
    RequestHeader,
    decode_reply,
    encode_request,
    request_of,
)
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
)
from airflow_provider.group.declarative.protocol.wire.messages.refusals import decode_request_header, encode_refusal
from airflow_provider.group.declarative.protocol.wire.records import Record, decode_record
from airflow_provider.group.declarative.server.errors import AbortedError, BlamedError, OversizedError, ShardError
from airflow_provider.group.declarative.server.request_handling import serving as serving_module
from airflow_provider.group.declarative.server.request_handling.faulty import Faulty
from airflow_provider.group.declarative.server.request_handling.held import Held
from airflow_provider.group.declarative.server.request_handling.oversized import Oversized
from airflow_provider.group.declarative.server.request_handling.serving import Serving
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, TaskId

ONE = Layout(shards=1, replies=2)


def serving_of(
    log: MemoryLog,
    held: Held | None = None,
    faulty: Faulty | None = None,
    oversized: Oversized | None = None,
) -> Serving:
    serving = Serving(
        0,
        ONE,
        EchoMachine(),
        log,
        held=held if held is not None else Held(),
        faulty=faulty or Faulty(),
        oversized=oversized or Oversized(),
        now_ms=lambda: 1_000,
    )
    serving.load()
    return serving


def numbered(offset: int, number: int, reader: bytes = READER) -> RawRequest:
    request = request_of(heartbeat_of("etl"), correlation_id=number, reply_partition=1)
    return RawRequest(offset, reader, encode_request(request))


def test_what_was_overtaken_by_a_later_request_of_its_process_is_ignored() -> None:
    log = MemoryLog()
    serving_of(log).handle([numbered(1, 5), numbered(2, 7), numbered(3, 6), numbered(4, 8)], {})
    assert log.answers == {5: (0, 1), 7: (0, 2), 8: (0, 3)}
    ((_, next_offset),) = log.committed
    assert next_offset == 5


def test_several_may_have_been_overtaken_by_the_same_one() -> None:
    log = MemoryLog()
    serving_of(log).handle([numbered(1, 5), numbered(2, 9), numbered(3, 6), numbered(4, 7), numbered(5, 10)], {})
    assert log.answers.keys() == {5, 9, 10}


def test_each_process_numbers_its_own_and_begins_again_when_there_are_no_more() -> None:
    log = MemoryLog()
    last = 2**31 - 1
    serving_of(log).handle([numbered(1, last), numbered(2, 3, b"other"), numbered(3, 0), numbered(4, 1)], {})
    assert log.answers == {last: (0, 1), 3: (0, 2), 0: (0, 3), 1: (0, 4)}


def test_one_transaction_has_records_replies_and_the_offset_behind_what_was_handled() -> None:
    log = MemoryLog()
    serving_of(log).handle([raw(7), raw(8)], {})
    ((writes, next_offset),) = log.committed
    assert next_offset == 9
    assert [write.topic for write in writes] == [RECORDS_TOPIC] * 2 + [REPLIES_TOPIC] * 2
    assert {(write.partition, write.key) for write in writes if write.topic == REPLIES_TOPIC} == {(1, READER)}
    assert log.answers == {7: (0, 1), 8: (0, 2)}


def test_what_one_has_written_the_next_one_knows() -> None:
    log = MemoryLog()
    serving_of(log).handle([raw(0), raw(1)], {})
    successor = serving_of(log)
    assert successor.groups == {"etl"}
    successor.handle([raw(2)], {})
    assert log.answers[2] == (0, 3)


def test_only_the_last_record_of_a_key_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    decoded: list[bytes | None] = []
    serving_of(log).handle([raw(0), raw(1), raw(2, group="other"), raw(3)], {})

    def decode(key: bytes, value: bytes | None) -> Record:
        decoded.append(value)
        return decode_record(key, value)

    monkeypatch.setattr(serving_module, "decode_record", decode)
    serving_of(log).handle([raw(4)], {})
    assert decoded == [log.records[2].value, log.records[3].value]
    assert log.answers[4] == (0, 4)


def test_a_held_request_is_answered_when_the_timer_fires() -> None:
    log = MemoryLog()
    serving = serving_of(log)
    serving.handle([raw(0, HELD)], {})
    assert log.answers == {}
    assert serving.timer_at_ms == 1_000 + HEARTBEAT_MS
    serving.fire()
    assert log.answers == {0: (0, 1)}
    assert log.committed[-1][1] == 1


def test_requests_that_lead_to_nothing_take_no_transaction_of_their_own() -> None:
    log = MemoryLog()
    serving = serving_of(log)
    serving.handle([raw(0, SILENT), raw(1, SILENT)], {})
    assert log.committed == []
    assert log.handled_to() == 0, "the next coordinator would begin with them"
    serving.handle([raw(2)], {})
    ((_, next_offset),) = log.committed
    assert next_offset == 3


def test_those_who_wait_are_told_when_another_one_serves_them() -> None:
    log, held = MemoryLog(), Held()
    serving = serving_of(log, held)
    serving.handle([raw(0, HELD)], {})
    serving.hand_over()
    assert log.answers == {0: (KafkaErrorCode.NOT_COORDINATOR, 0)}
    assert not held


def test_those_who_wait_are_told_when_the_group_was_loaded_anew() -> None:
    log, held = MemoryLog(), Held()
    serving_of(log, held).handle([raw(0, HELD)], {})
    serving_of(log, held)
    assert log.answers == {0: (KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0)}


def test_who_waits_is_told_to_ask_again_when_its_reply_could_not_be_written() -> None:
    log, held = MemoryLog(), Held()
    serving = serving_of(log, held)
    serving.handle([raw(0, HELD)], {})
    log.errors = [ShardError("the broker is away"), ShardError("it still is")]
    with pytest.raises(ShardError):
        serving.fire()
    with pytest.raises(ShardError):
        serving_of(log, held)
    serving_of(log, held)
    assert log.answers == {0: (KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0)}
    assert not held


def test_who_was_not_answered_hears_of_a_transaction_of_which_nobody_knew() -> None:
    """Its request is not read again, should that transaction have had its effect."""
    log, held = MemoryLog(), Held()
    serving = serving_of(log, held)
    log.errors = [ShardError("nobody knows")]
    log.unknown = list(log.errors)
    with pytest.raises(ShardError):
        serving.handle([raw(0), raw(1, SILENT)], {})
    serving_of(log, held)
    assert log.handled_to() == 2
    assert [reply.header.correlation_id for reply in log.replies] == [0, 1]
    assert log.answers == {0: (0, 1), 1: (KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0)}


def test_what_was_aborted_is_written_again_but_not_for_ever() -> None:
    log = MemoryLog()
    serving = serving_of(log)
    log.errors = [AbortedError("once"), AbortedError("twice")]
    serving.handle([raw(0)], {})
    assert log.answers == {0: (0, 1)}
    assert len(log.records) == 1
    log.errors = [AbortedError("again")] * 5
    with pytest.raises(AbortedError):
        serving.handle([raw(1)], {})


def test_nothing_is_committed_of_a_batch_that_the_machine_fails_at() -> None:
    log, faulty = MemoryLog(), Faulty()
    held = Held()
    serving = serving_of(log, held, faulty)
    with pytest.raises(BlamedError, match="a request of member 'raises' of group 'etl' could not be handled"):
        serving.handle([raw(0), raw(1, RAISES)], {})
    assert log.committed == []
    assert [request in faulty for request in (0, 1)] == [False, True]
    serving_of(log, held, faulty).handle([raw(0), raw(1, RAISES)], {})
    assert log.answers == {0: (0, 1), 1: (KafkaErrorCode.UNKNOWN_SERVER_ERROR, 0)}
    assert len(log.replies) == 2, "nobody is told to ask again whose request is read again"


def test_jobs_that_the_machine_fails_at_keep_nobody_else_from_the_shard() -> None:
    class Machine(EchoMachine):
        def handle(self, event: Event) -> Effects:
            if isinstance(event, JobsRead):
                raise RuntimeError("a fault of the machine")
            return super().handle(event)

    log, faulty, oversized = MemoryLog(), Faulty(), Oversized()

    def handle_again() -> None:
        serving = Serving(0, ONE, Machine(), log, held=Held(), faulty=faulty, oversized=oversized, now_ms=lambda: 1_000)
        serving.load()
        serving.handle([raw(0)], {"etl": frozenset({TaskId("a", 0)})})

    with pytest.raises(BlamedError, match="the tasks of group 'etl' could not be handled"):
        handle_again()
    handle_again()
    assert log.answers == {0: (0, 1)}


def test_a_fault_after_all_requests_of_a_batch_is_laid_to_each() -> None:
    """Else the shard would be loaded again and again."""

    class Machine(EchoMachine):
        def handle_all(self, events: Iterable[Event], now_ms: int) -> Effects:
            if len(list(events)) > 1:
                raise RuntimeError("a fault of the machine")
            return Effects(timer_at_ms=now_ms)

    log, faulty = MemoryLog(), Faulty()
    serving = Serving(0, ONE, Machine(), log, held=Held(), faulty=faulty, oversized=Oversized(), now_ms=lambda: 1_000)
    serving.load()
    with pytest.raises(BlamedError):
        serving.handle([raw(0), raw(1)], {})
    assert [request in faulty for request in (0, 1)] == [True, True]


def test_a_reply_that_no_topic_takes_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    monkeypatch.setattr(serving_module, "LARGEST_VALUE", 10)
    serving_of(log).handle([raw(0)], {})
    (reply,) = log.replies
    assert reply.body.error_code == KafkaErrorCode.UNKNOWN_SERVER_ERROR
    assert "more than the 10 that a record may have" in (reply.body.error_message or "")
    assert len(log.records) == 1, "what it has led to"


def test_requests_and_jobs_whose_outcome_no_topic_takes_keep_nobody_else_from_the_shard() -> None:
    log, faulty, oversized = MemoryLog(), Faulty(), Oversized()
    serving = serving_of(log, None, faulty, oversized)
    serving.handle([raw(0)], {})
    log.errors = [OversizedError("too large")]
    many = {"etl": frozenset({TaskId("a", 0)})}
    with pytest.raises(OversizedError):
        serving.handle([raw(1)], many)
    again = serving_of(log, None, faulty, oversized)
    again.handle([raw(1), raw(2)], many)
    assert log.answers == {0: (0, 1), 1: (KafkaErrorCode.UNKNOWN_SERVER_ERROR, 0), 2: (0, 2)}
    assert log.replies[-1].body.throttle_time_ms == 0, "of its jobs it is not told"
    again.handle([raw(3)], {"etl": frozenset()})
    again.handle([raw(4)], {"etl": frozenset({TaskId("a", 0), TaskId("a", 1)})})
    assert log.replies[-1].body.throttle_time_ms == 2


def test_records_that_can_not_be_read_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    log.committed = [([Write(RECORDS_TOPIC, 0, b"\x00\x63", b"?"), Write(RECORDS_TOPIC, 0, None, None)], None)]
    serving_of(log).handle([raw(0)], {})
    assert "2 records from offset 0 to 1 can't be read" in caplog.text
    assert log.answers == {0: (0, 1)}


def test_bytes_that_are_no_request_are_passed_over_and_told_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = MemoryLog()
    nonsense = [RawRequest(offset, None, b"\xff" * offset) for offset in range(5)]
    serving_of(log).handle([*nonsense, raw(5)], {})
    assert log.answers == {5: (0, 1)}
    assert log.committed[-1][1] == 6
    assert len(caplog.records) == 1


class TestReading:
    def test_what_is_asked(self) -> None:
        asked = read_request(raw(3), shard=0, layout=ONE)
        assert isinstance(asked, Asked)
        assert asked.body == heartbeat_of("etl")

    def test_who_asks_is_said_in_the_header(self) -> None:
        request = request_of(
            heartbeat_of("etl"), correlation_id=1, reply_partition=0, client_id="cospark", client_host="here"
        )
        asked = read_request(RawRequest(0, None, encode_request(request)), shard=0, layout=ONE)
        assert isinstance(asked, Asked)
        assert (asked.header.client_id, asked.header.client_host) == ("cospark", "here")

    @pytest.mark.parametrize("length", range(12))
    def test_bytes_that_end_in_the_header_can_not_be_answered(self, length: int) -> None:
        value = (raw(3).value or b"")[: min(length, 11)]
        assert isinstance(read_request(RawRequest(0, READER, value), shard=0, layout=ONE), Unanswerable)

    def test_bytes_that_end_behind_the_header_are_refused(self) -> None:
        value = (raw(3).value or b"")[:-1]
        refused = read_request(RawRequest(0, READER, value), shard=0, layout=ONE)
        assert isinstance(refused, Refused)
        assert refused.error_code == KafkaErrorCode.INVALID_REQUEST
        assert refused.address.correlation_id == 3

    @pytest.mark.parametrize("change", [b"\x03\xe9\x00\x01", b"\x27\x0f\x00\x00"], ids=["version", "api"])
    def test_what_is_not_known_yet_is_refused_with_its_correlation_id(self, change: bytes) -> None:
        value = change + (raw(3).value or b"")[4:]
        refused = read_request(RawRequest(0, READER, value), shard=0, layout=ONE)
        assert isinstance(refused, Refused)
        assert refused.error_code == KafkaErrorCode.UNSUPPORTED_VERSION
        assert refused.write().value is not None
        assert refused.address.correlation_id == 3

    @pytest.mark.parametrize("partition", [-1, 2])
    def test_a_partition_that_is_not_there_can_not_be_answered(self, partition: int) -> None:
        request = request_of(heartbeat_of("etl"), correlation_id=1, reply_partition=partition)
        asked = read_request(RawRequest(0, None, encode_request(request)), shard=0, layout=ONE)
        assert isinstance(asked, Unanswerable)

    def test_a_group_of_another_shard_is_refused(self) -> None:
        two = Layout(shards=2, replies=2)
        refused = read_request(raw(0), shard=1 - partition_of("etl", 2), layout=two)
        assert isinstance(refused, Refused)
        assert refused.error_code == KafkaErrorCode.NOT_COORDINATOR


class TestRefusals:
    BODIES = (
        heartbeat_of("etl"),
        ConnectGroupPrepareAssignmentRequest(group_id="etl", member_id=MemberId("m"), member_epoch=MemberEpoch(1)),
        ConnectGroupInstallAssignmentRequest(
            group_id="etl", member_id=MemberId("m"), member_epoch=MemberEpoch(1), group_epoch=GroupEpoch(1)
        ),
    )

    @pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
    def test_each_request_has_one(self, body: RequestBody) -> None:
        header = decode_request_header(encode_request(request_of(body, correlation_id=5, reply_partition=0)))
        assert isinstance(header, RequestHeader)
        data = encode_refusal(header.api_key, header.correlation_id, error_code=42, message="no")
        reply = decode_reply(data)
        assert reply.header.correlation_id == 5
        assert (reply.body.error_code, reply.body.error_message) == (42, "no")
