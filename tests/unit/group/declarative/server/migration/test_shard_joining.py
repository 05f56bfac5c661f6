"""The first ones of a group wait while somebody looks whether it has workers in the classic protocol."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from coordinated import GROUP, heartbeat, whole
from shard_log import MemoryLog, raw

from airflow_provider.group.declarative.coordinator.coordinator import Coordinator
from airflow_provider.group.declarative.coordinator.events import Effects, Event, RequestArrived
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.protocol.sharding import Layout
from airflow_provider.group.declarative.protocol.wire.messages.bodies import ConnectGroupHeartbeatRequest
from airflow_provider.group.declarative.protocol.wire.record_values import ConnectWorkerGroupMetadataValue
from airflow_provider.group.declarative.protocol.wire.records import decode_record
from airflow_provider.group.declarative.server.errors import BlamedError, OversizedError, ShardError
from airflow_provider.group.declarative.server.migration.classic_workers import Seen
from airflow_provider.group.declarative.server.request_handling.faulty import Faulty
from airflow_provider.group.declarative.server.request_handling.held import Held
from airflow_provider.group.declarative.server.request_handling.oversized import Oversized
from airflow_provider.group.declarative.server.request_handling.serving import Serving
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch, MemberId

ONE = Layout(shards=1, replies=2)


class Looker:
    """Who is asked for groups in the classic protocol."""

    def __init__(self) -> None:
        self.asked: list[str] = []


class FailingCoordinator(Coordinator):
    """It has a fault that w2 shows."""

    def handle_all(self, events: Iterable[Event], now_ms: int) -> Effects:
        for event in events:
            if isinstance(event, RequestArrived) and event.body.member_id == "w2":  # type: ignore[union-attr]
                raise RuntimeError("a fault of the machine")
        return Effects()


def joining(
    log: MemoryLog,
    held: Held | None = None,
    machine: type[Coordinator] = Coordinator,
    faulty: Faulty | None = None,
) -> tuple[Serving, Looker]:
    looker = Looker()
    serving = Serving(
        0,
        ONE,
        machine(CoordinatorSettings()),
        log,
        held=held if held is not None else Held(),
        faulty=faulty or Faulty(),
        oversized=Oversized(),
        now_ms=lambda: 1_000,
        look=looker.asked.append,
    )
    serving.load()
    return serving, looker


def join_of(member: str) -> ConnectGroupHeartbeatRequest:
    return heartbeat(MemberId(member), 0, (), **whole())


def test_who_begins_a_group_is_let_in_when_no_worker_is_there_in_the_classic_protocol() -> None:
    log, held = MemoryLog(), Held()
    serving, looker = joining(log, held)
    serving.handle([raw(0, body=join_of("w1")), raw(1, body=join_of("w2")), raw(2, body=join_of("w1"))], {})
    assert looker.asked == [GROUP]
    assert log.answers == {}
    assert len(held) == 3
    serving.handle([], {}, [Seen(GROUP)])
    assert log.answers.keys() == {0, 1, 2}
    serving.handle([raw(3, body=join_of("w3"))], {})
    assert looker.asked == [GROUP]


def test_who_begins_a_group_is_refused_while_workers_are_there_in_the_classic_protocol() -> None:
    log = MemoryLog()
    serving, looker = joining(log)
    serving.handle([raw(0, body=join_of("w1"))], {})
    serving.handle([], {}, [Seen(GROUP, KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL, "c1 is there")])
    assert log.answers == {0: (KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL, 0)}
    assert log.records == []
    serving.handle([raw(1, body=join_of("w1"))], {})
    assert looker.asked == [GROUP, GROUP]


_AGAIN, _FAILED = KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS, KafkaErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("fault", "heard"),
    [
        (ShardError("the broker is away"), {0: _AGAIN, 1: _AGAIN}),
        (OversizedError("too large"), {0: _FAILED, 1: _FAILED}),
        (RuntimeError("a fault of the machine"), {0: _AGAIN, 1: _FAILED}),
    ],
)
def test_who_waits_to_join_hears_of_what_went_wrong(fault: Exception, heard: dict[int, KafkaErrorCode]) -> None:
    """Its request is not read again, as those are that have just arrived."""
    log, held, faulty = MemoryLog(), Held(), Faulty()
    serving, _ = joining(log, held, FailingCoordinator if isinstance(fault, RuntimeError) else Coordinator, faulty)
    serving.handle([raw(0, body=join_of("w1")), raw(1, body=join_of("w2"))], {})
    log.errors = [fault]
    with pytest.raises(BlamedError if isinstance(fault, RuntimeError) else type(fault)):
        serving.handle([], {}, [Seen(GROUP)])
    log.errors = []
    joining(log, held, faulty=faulty)
    assert log.answers == {number: (error, 0) for number, error in heard.items()}
    assert not len(held)


def test_who_is_refused_is_told_to_ask_again_when_that_could_not_be_written() -> None:
    log, held = MemoryLog(), Held()
    serving, _ = joining(log, held)
    serving.handle([raw(0, body=join_of("w1"))], {})
    log.errors = [ShardError("the broker is away")]
    with pytest.raises(ShardError):
        serving.handle([], {}, [Seen(GROUP, KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL, "c1 is there")])
    joining(log, held)
    assert log.answers == {0: (_AGAIN, 0)}


def test_the_epochs_of_a_group_go_on_from_what_its_workers_have_written() -> None:
    log = MemoryLog()
    serving, _ = joining(log)
    serving.handle([raw(0, body=join_of("w1"))], {})
    serving.handle([], {}, [Seen(GROUP, epoch=Epoch(41))])
    epochs = [
        record.value.epoch
        for write in log.records
        if isinstance((record := decode_record(write.key or b"", write.value)).value, ConnectWorkerGroupMetadataValue)
    ]
    assert epochs == [41, 42]
    successor = Coordinator(CoordinatorSettings())
    for write in log.records:
        successor.replay(decode_record(write.key or b"", write.value))
    assert successor.groups[GROUP].epoch == 42
