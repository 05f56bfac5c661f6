"""What is in ``golden/bytes-0.1.3.json``, in its order: what a coordinator keeps of its groups, and in it what workers
say of themselves and what their assignors remember; and what the workers of a classic group send each other. In
``golden/compressed-0.1.3.json`` they send each other the same in version 4.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState, learning
from airflow_provider.group.declarative.assignors.client_assignor import WorkerFacts
from airflow_provider.group.declarative.assignors.remembered import Remembered
from airflow_provider.group.declarative.protocol.model import AssignmentEpoch, GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.wire import record_values as keys
from airflow_provider.group.declarative.protocol.wire.parts import Assignor, ConnectorsAndTasks
from airflow_provider.group.declarative.protocol.wire.record_values import (
    Configuration,
    ConnectWorkerGroupConfigurationValue,
    ConnectWorkerGroupConnectorsTasksMetadataValue,
    ConnectWorkerGroupCurrentMemberAssignmentValue,
    ConnectWorkerGroupMemberMetadataValue,
    ConnectWorkerGroupMetadataValue,
    ConnectWorkerGroupTargetAssignmentValue,
    TargetMember,
)
from airflow_provider.group.declarative.protocol.wire.records import Record
from airflow_provider.values.model import ConfigOffset, Epoch, MemberId, TaskId
from airflow_provider.values.packed_tasks import PackedTasks

M1, M2 = MemberId("m1"), MemberId("m2")
_SOME: Final = (ConnectorsAndTasks(connectors=("flights",), tasks=(TaskId("flights", 0), TaskId("flights", 3))),)
_MORE: Final = (ConnectorsAndTasks(tasks=(TaskId("orders", 7),)),)

RECORDS: Final = (
    Record(keys.ConnectWorkerGroupMetadataKey("etl"), ConnectWorkerGroupMetadataValue(epoch=GroupEpoch(7))),
    Record(
        keys.ConnectWorkerGroupConnectorsTasksMetadataKey("etl"),
        ConnectWorkerGroupConnectorsTasksMetadataValue(epoch=GroupEpoch(6), connectors_tasks=_SOME),
    ),
    Record(
        keys.ConnectWorkerGroupMemberMetadataKey("etl", M1),
        ConnectWorkerGroupMemberMetadataValue(
            group_epoch=GroupEpoch(5),
            instance_id="w1",
            client_id="cospark",
            client_host="/10.0.0.1",
            assignors=(
                Assignor(
                    name="cooperative", minimum_version=0, maximum_version=2, reason=3, version=2, metadata=b"\x01w"
                ),
            ),
            rebalance_timeout_ms=60_000,
            server_assignor="uniform",
        ),
    ),
    Record(
        keys.ConnectWorkerGroupTargetAssignmentKey("etl"),
        ConnectWorkerGroupTargetAssignmentValue(
            assignment_epoch=AssignmentEpoch(7),
            members=(TargetMember(member_id=M1, error=1, connectors_tasks=_SOME, version=2, metadata=b"m"),),
            error=2,
            delayed=(TargetMember(member_id=M2, connectors_tasks=_MORE),),
        ),
    ),
    Record(
        keys.ConnectWorkerGroupCurrentMemberAssignmentKey("etl", M1),
        ConnectWorkerGroupCurrentMemberAssignmentValue(
            member_epoch=MemberEpoch(6),
            error=1,
            connectors_tasks=_SOME,
            version=2,
            metadata=b"m",
            state=1,
            connectors_tasks_pending_revocation=_MORE,
            assignment_epoch=AssignmentEpoch(7),
        ),
    ),
    Record(
        keys.ConnectWorkerGroupConfigurationKey("etl"),
        ConnectWorkerGroupConfigurationValue(configurations=(Configuration(name="session", value="45000"),)),
    ),
    Record(keys.ConnectWorkerGroupMemberMetadataKey("etl", M2), None),
)
FACTS: Final = WorkerFacts(
    url="http://airflow.example/w1", slots=4, returns_ms=61_000, leaving=LeaveReason.DRAINED, delay_over_ms=1_700
)
REMEMBERED: Final = Remembered(
    asks_at_ms=1_700_000_000_000,
    next_moves_at_ms=1_700_000_030_000,
    until_ms=1_700_000_060_000,
    awaited=True,
    instance_id="w1",
    former=frozenset({TaskId("flights", -1), TaskId("flights", 3)}),
)
_LEARNING, _PROGRESS = learning({TaskId("orders", 7): 0.5, TaskId("orders", 8): 1.0})
SAID: Final = ExtensibleState(
    url="http://airflow.example/w1",
    config_offset=ConfigOffset(41),
    owned=PackedTasks.of({TaskId("flights", -1), TaskId("flights", 3)}),
    learning=_LEARNING,
    progress=_PROGRESS,
    ready=PackedTasks.of({TaskId("orders", 8)}),
    leaving="scale: to 80%",
    slots=4,
    weight=0.5,
    epoch=Epoch(7),
    failed=PackedTasks.of({TaskId("orders", 7)}),
)
SENT: Final = ExtensibleAssignment(
    error=1,
    leader="w1-m",
    leader_url="http://airflow.example/w1",
    config_offset=ConfigOffset(41),
    target=PackedTasks.of({TaskId("flights", 3)}),
    revoked=PackedTasks.of({TaskId("flights", -1)}),
    delay_ms=900,
    learning=PackedTasks.of({TaskId("orders", 7)}),
    learned=PackedTasks.of({TaskId("flights", 3)}),
    another_round=True,
    shutdown=True,
    epoch=Epoch(8),
)
