"""What an earlier release has written means now what it meant then: each document is read as the value it was made of.

Beside ``test_golden.py``, which says that nothing of a document is lost when it is written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import declarative_script
import pytest
from declarative_life import DeclarativeLife
from golden_bytes import FACTS, RECORDS, REMEMBERED, SAID, SENT
from golden_values import A0, DECLARED, EXTENSIBLE, JOB, LEARNS, PLAN, VALUES, W1, WALL_MS
from member_script import SETTINGS, tasks
from stand_ins import IdleListener

from airflow_provider.group.classic.member.lessons import Lessons
from airflow_provider.group.classic.member.saved import resume
from airflow_provider.group.classic.wire import v3, v4
from airflow_provider.group.declarative.assignors.facts import decode_facts
from airflow_provider.group.declarative.assignors.remembered import decode_remembered
from airflow_provider.group.declarative.member import saved as declarative_saved
from airflow_provider.group.declarative.protocol.model import AssignorMetadata
from airflow_provider.group.declarative.protocol.wire.records import decode_record
from airflow_provider.integration.memberships.worker_values import WorkerStory
from airflow_provider.state.records import (
    REMOVED,
    ControlRecord,
    HaltRecord,
    JobDefinition,
    KeyKind,
    LevelsRecord,
    PlanRecord,
    RebalanceRecord,
    Removal,
    RestartRecord,
    TaskHaltRecord,
    TaskStatus,
    WorkerStatus,
    event_from_json,
)
from airflow_provider.state.rounds.reading import group_record_from_json
from airflow_provider.state.views.jobs_view import JobsView
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import GenerationId, MemberId, SubProtocol
from airflow_provider.worker.endings.handed_over import HandedOver

Document = Mapping[str, Any]

GOLDEN: Final = Path(__file__).parent / "golden"
DOCUMENTS: Final = json.loads((GOLDEN / "0.1.3.json").read_text())
BYTES: Final = json.loads((GOLDEN / "bytes-0.1.3.json").read_text())
COMPRESSED: Final = json.loads((GOLDEN / "compressed-0.1.3.json").read_text())
READ: Final[Mapping[str, Callable[[Document], object]]] = {
    "JobDefinition": JobDefinition.from_json,
    "removed": lambda written: Removal.from_json(written[REMOVED]),
    "PlanRecord": PlanRecord.from_json,
    "ControlRecord": ControlRecord.from_json,
    "HaltRecord": HaltRecord.from_json,
    "TaskHaltRecord": TaskHaltRecord.from_json,
    "RestartRecord": RestartRecord.from_json,
    "RebalanceRecord": RebalanceRecord.from_json,
    "LevelsRecord": LevelsRecord.from_json,
    "TaskStatus": TaskStatus.from_json,
    "WorkerStatus": WorkerStatus.from_json,
    "GroupRecord": group_record_from_json,
    "RebalanceEvent": event_from_json,
    "TaskEvent": event_from_json,
    "ActionEvent": event_from_json,
    "airflow_provider.triggers.worker.WorkerTrigger": lambda written: WorkerTrigger(**written).spec,
    "airflow_provider.triggers.group.GroupTrigger": lambda written: GroupTrigger(**written).condition,
}


def written(kind: str) -> list[Any]:
    return [document["written"] for document in DOCUMENTS if document["type"] == kind]


def workers() -> list[WorkerTrigger]:
    return [WorkerTrigger(**each) for each in written("airflow_provider.triggers.worker.WorkerTrigger")]


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_it_is_the_value_that_was_written(number: int) -> None:
    kind, value = VALUES[number]
    assert DOCUMENTS[number]["type"] == kind
    assert READ[kind](DOCUMENTS[number]["written"]) == value


def test_there_is_a_document_of_each_kind_of_record() -> None:
    """As the keys in the topics tell them apart; what is by worker or task is one kind of value."""
    of_values = {
        KeyKind.JOB: "JobDefinition",
        KeyKind.PLAN: "PlanRecord",
        KeyKind.CONTROL: "ControlRecord",
        KeyKind.HALT: "HaltRecord",
        KeyKind.HALT_TASK: "TaskHaltRecord",
        KeyKind.RESTART: "RestartRecord",
        KeyKind.RESTART_TASK: "RestartRecord",
        KeyKind.REBALANCE: "RebalanceRecord",
        KeyKind.LEVELS: "LevelsRecord",
        KeyKind.GROUP: "GroupRecord",
        KeyKind.WORKER: "WorkerStatus",
        KeyKind.TASK: "TaskStatus",
    }
    assert of_values.keys() == set(KeyKind)
    assert set(of_values.values()) <= {kind for kind, _ in VALUES}


def test_what_is_known_by_a_hash_has_the_same_hash() -> None:
    """A task whose fingerprint were another would start anew with the upgrade."""
    assert JOB.fingerprint == "45db5bbbd419b6e9"
    assert PLAN.fingerprints == ("d0bca74a7a36c00e", "313d2be111aa433d")


def test_a_job_that_was_removed_is_gone() -> None:
    view = JobsView()
    (removed,) = written("removed")
    for value in (written("JobDefinition")[0], removed):
        view.apply(b"job:flights", json.dumps(value).encode(), view.offset)
    assert "flights" not in view.snapshot().jobs
    assert view.snapshot().removals["flights"].by == "etl.remove"


def test_a_leader_goes_on_with_what_was_remembered_of_learners() -> None:
    (record,) = (group_record_from_json(each) for each in written("GroupRecord"))
    assert record.learns
    assert record.deadline_ms == WALL_MS + 900
    assert record.owned_by(W1) == {A0}
    assert record.because == "w2 joined: w2 is ready for flights:1"
    assert record == EXTENSIBLE


STORY: Final = WorkerStory(began_ms=WALL_MS - 9_000, deferrals=2, first_epoch=3, last_epoch=7, stopped=4)


def test_a_deferred_worker_that_learned_goes_on_with_all_it_had() -> None:
    trigger = next(each for each in workers() if each.spec == LEARNS)
    assert (trigger.story, trigger.deferred_at_ms) == (STORY, WALL_MS)
    assert (trigger.push_summary, trigger.ends_task) == (False, False)
    assert trigger.serialize()[1]["link"] == "http://airflow.example/w2"
    saved = HandedOver.from_json(trigger.saved)
    assert (saved.began_at, saved.process) == (12, "host/place/1/2")
    assert (saved.idle_since_ms, saved.asked_since_ms) == (WALL_MS - 60, WALL_MS - 30)
    assert saved.membership["group_protocol"] == "classic"
    state = resume(saved.membership, SETTINGS, now_ms=50_000, wall_ms=WALL_MS + 1_000)
    assert (state.member_id, state.generation, state.epoch) == (MemberId("w-1"), GenerationId(2), 2)
    assert (state.protocol, state.owned) == (SubProtocol.EXTENSIBLE, tasks("a0 a1"))
    assert state.lessons == Lessons(learning=tasks("b0 b1"), learned=tasks("a0")), "what was made ready has ended"
    assert state.leaving_soon == "scale: to 80%"
    assert state.lease_until is not None
    assert state.lease_until > 50_000, "what it runs goes on"


async def test_a_deferred_worker_of_a_declarative_group_goes_on_as_the_same_member() -> None:
    trigger = next(each for each in workers() if each.spec == DECLARED)
    assert (trigger.story, trigger.push_summary, trigger.ends_task) == (STORY, True, True)
    saved = HandedOver.from_json(trigger.saved).membership
    state = declarative_saved.resume(saved, declarative_script.SETTINGS, now_ms=50_000, wall_ms=WALL_MS + 1_000)
    assert (state.epoch, state.assigned, state.owned) == (5, tasks("a0 a1"), tasks("a0 a1"))
    assert state.lease_until is not None
    assert state.lease_until > 50_000, "what it runs goes on"
    life = DeclarativeLife()
    try:
        memberships = life.memberships()
        member = memberships.make(IdleListener(), saved)
        assert (member.view.member_id, member.view.epoch, member.view.owned) == ("w-1", 5, tasks("a0 a1"))
        assert member._assignors.returns_ms == 61_000, "a triggerer does not know it"
        (anew,) = {memberships.make(IdleListener(), memberships.taken_over(saved)).view.member_id}
        assert anew != "w-1"
    finally:
        life.channel.close()


def test_workers_of_two_releases_understand_each_other() -> None:
    said = {each["type"]: each["written"] for each in BYTES}
    assert v3.decode_metadata(bytes.fromhex(said["extensible metadata"]["bytes"])) == SAID
    assert v3.decode_assignment(bytes.fromhex(said["extensible assignment"]["bytes"])) == SENT


def test_workers_of_two_releases_understand_each_other_when_they_compress() -> None:
    """The bytes are not compared: another zlib may make others of the same."""
    said = {each["type"]: each["written"] for each in COMPRESSED}
    assert v4.decode_metadata(bytes.fromhex(said["compressed metadata"]["bytes"])) == replace(SAID, version=4)
    assert v4.decode_assignment(bytes.fromhex(said["compressed assignment"]["bytes"])) == replace(SENT, version=4)


def test_what_a_coordinator_keeps_is_read_as_it_was_meant() -> None:
    records = [
        decode_record(
            bytes.fromhex(each["written"]["key"]),
            None if each["written"]["value"] is None else bytes.fromhex(each["written"]["value"]),
        )
        for each in BYTES
        if each["type"] == "coordinator record"
    ]
    assert tuple(records) == RECORDS
    said = {each["type"]: each["written"] for each in BYTES}
    assert decode_facts(bytes.fromhex(said["facts"]["bytes"]), said["facts"]["version"]) == FACTS
    remembered = AssignorMetadata(
        version=said["remembered"]["version"], data=bytes.fromhex(said["remembered"]["bytes"])
    )
    assert decode_remembered(remembered) == REMEMBERED
