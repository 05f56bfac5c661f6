"""A target that a coordinator computes by itself, and that no topic takes: the group keeps the one that it has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from coordinated import GROUP, heartbeat, tasks, whole
from shard_log import MemoryLog, raw

from airflow_provider.group.declarative.coordinator.assignors.prepared import Prepared
from airflow_provider.group.declarative.coordinator.coordinator import Coordinator
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.protocol.exchange import Write
from airflow_provider.group.declarative.protocol.layout import Layout
from airflow_provider.group.declarative.protocol.model import (
    AssignmentEpoch,
    AssignorMetadata,
    MemberTarget,
    TargetAssignment,
)
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC
from airflow_provider.group.declarative.server.errors import OversizedError
from airflow_provider.group.declarative.server.request_handling.faulty import Faulty
from airflow_provider.group.declarative.server.request_handling.held import Held
from airflow_provider.group.declarative.server.request_handling.oversized import Oversized
from airflow_provider.group.declarative.server.request_handling.serving import Serving
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, Tasks

LIMIT = 1_000
DUE_MS = 5_000
SESSION_MS = 10_000
W1, W2 = MemberId("w1"), MemberId("w2")
OF_A, OF_B = tasks("AC0"), tasks("BC0")


class Growing:
    """All to the first member, with as much metadata as it is told to make; and it wants another one soon.

    :ivar size: in bytes
    :ivar due_ms: how soon
    """

    def __init__(self) -> None:
        self.size = 0
        self.due_ms = DUE_MS
        self.computed = 0

    def compute(self, prepared: Prepared, now_ms: int, max_delay_ms: int | None = None) -> TargetAssignment:
        self.computed += 1
        metadata = AssignorMetadata(data=(now_ms + self.due_ms).to_bytes(8, "big") + b"x" * self.size)
        share = MemberTarget(tasks=prepared.group.configured, metadata=metadata)
        return TargetAssignment(
            epoch=AssignmentEpoch(prepared.group.epoch), members={min(prepared.group.members): share}
        )

    def due_at_ms(self, target: TargetAssignment) -> int | None:
        shares = target.members.values()
        return min((int.from_bytes(share.metadata.data[:8], "big") for share in shares), default=None)


class Measuring(MemoryLog):
    """Of a topic that takes so much."""

    def commit(self, writes: Sequence[Write], next_offset: int | None) -> None:
        for write in writes:
            if write.topic == RECORDS_TOPIC and len(write.value or b"") > LIMIT:
                raise OversizedError(f"more than the topic {write.topic!r} takes", write)
        super().commit(writes, next_offset)


class Growth:
    """A shard whose group has a member, with a target, and the next one is too large.

    :ivar now: milliseconds
    """

    def __init__(self) -> None:
        self.now = 1_000
        self.asked = 0
        self.log = Measuring()
        self.assignor = Growing()
        self.oversized = Oversized()
        self.load()
        self.join(W1)
        self.read_jobs(OF_A)

    def load(self) -> None:
        settings = CoordinatorSettings(session_timeout_ms=SESSION_MS, server_assignors={"growing": self.assignor})
        self.machine = Coordinator(settings)
        self.serving = Serving(
            0,
            Layout(shards=1, replies=2),
            self.machine,
            self.log,
            held=Held(),
            faulty=Faulty(),
            oversized=self.oversized,
            now_ms=lambda: self.now,
        )
        self.serving.load()

    def read_jobs(self, configured: Tasks) -> None:
        self.serving.handle([], {GROUP: configured})

    def join(self, member: MemberId) -> KafkaErrorCode:
        self.asked += 1
        body = heartbeat(member, 0, (), **whole(client_assignors=None, server_assignor="growing"))
        self.serving.handle([raw(self.asked, body=body)], {})
        return KafkaErrorCode(self.log.answers[self.asked][0])

    def sleep(self, ms: int) -> None:
        self.now += ms
        timer_at_ms = self.serving.timer_at_ms
        assert timer_at_ms is not None
        assert timer_at_ms <= self.now
        self.serving.fire()

    def outlives(self, member: MemberId) -> None:
        """The others say nothing for a session."""
        self.now += SESSION_MS // 2
        self.asked += 1
        body = heartbeat(member, self.machine.groups[GROUP].current[member].epoch, None)
        self.serving.handle([raw(self.asked, body=body)], {})
        self.sleep(SESSION_MS // 2)

    @property
    def epochs(self) -> tuple[int, int]:
        """Of the group, and of its target."""
        group = self.machine.groups[GROUP]
        return group.epoch, group.target.epoch


@pytest.fixture
def shard() -> Growth:
    return Growth()


def test_a_timer_whose_target_no_topic_takes_loads_the_shard_once(
    shard: Growth, caplog: pytest.LogCaptureFixture
) -> None:
    assert shard.epochs == (2, 2)
    shard.assignor.size = LIMIT
    with pytest.raises(OversizedError):
        shard.sleep(DUE_MS)
    (line,) = [record.message for record in caplog.records]
    assert line.startswith("group 'g' keeps its target, until its members or tasks change: more than the topic '__work")
    shard.load()
    computed = shard.assignor.computed
    shard.sleep(0)
    assert shard.epochs == (2, 2)
    assert shard.assignor.computed == computed
    assert "more than the topic '__worker_offsets' takes" in (shard.machine.stuck(GROUP) or "")


def test_it_is_computed_again_when_it_is_made_of_something_else(shard: Growth) -> None:
    shard.assignor.size = LIMIT
    with pytest.raises(OversizedError):
        shard.sleep(DUE_MS)
    shard.load()
    shard.sleep(0)
    shard.assignor.size = 0
    shard.read_jobs(OF_B)
    assert shard.epochs == (3, 3)
    assert shard.machine.stuck(GROUP) is None


def test_who_is_silent_is_removed_all_the_same_whoever_coordinates(shard: Growth) -> None:
    shard.assignor.due_ms = 10**9
    assert shard.join(W2) is KafkaErrorCode.NONE
    shard.assignor.size = LIMIT
    with pytest.raises(OversizedError):
        shard.outlives(W1)
    shard.load()
    shard.outlives(W1)
    assert shard.machine.groups[GROUP].members.keys() == {W1}
    assert shard.epochs == (4, 3)
    assert shard.machine.stuck(GROUP)

    shard.oversized = Oversized()
    with pytest.raises(OversizedError):
        shard.load()
    shard.load()
    assert shard.epochs == (4, 3)
    assert shard.machine.stuck(GROUP)
