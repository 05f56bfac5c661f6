"""What an earlier release has written (``golden/``, a file for each) is read: records in topics, saved memberships, and
the arguments of deferred triggers. Such a file is never changed; a new release adds one. What it means that is in the
last one, says ``test_golden_meaning.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import declarative_script
import pytest
from airflow.triggers.base import BaseTrigger
from member_script import SETTINGS, Script

from airflow_provider.group.classic.member.events import Resumed
from airflow_provider.group.classic.member.saved import resume, save
from airflow_provider.group.declarative.member import events as declarative_events
from airflow_provider.group.declarative.member import saved as declarative_saved
from airflow_provider.state.records import (
    REMOVED,
    ActionEvent,
    ControlRecord,
    HaltRecord,
    JobDefinition,
    LevelsRecord,
    PlanRecord,
    RebalanceEvent,
    RebalanceRecord,
    Removal,
    RestartRecord,
    TaskEvent,
    TaskHaltRecord,
    TaskStatus,
    WorkerStatus,
    decode,
    encode,
)
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.triggers.coordinator import CoordinatorTrigger
from airflow_provider.triggers.group import GroupTrigger
from airflow_provider.triggers.group_event import GroupEventTrigger
from airflow_provider.triggers.worker import WorkerTrigger
from airflow_provider.values.model import ConfigOffset

Document = Mapping[str, Any]


def _membership(written: Document) -> Document:
    """As a process saves it that took it on in the same moment."""
    wall_ms = written["saved_at_ms"]
    script = Script(state=resume(written, SETTINGS, now_ms=0, wall_ms=wall_ms))
    script.feed(Resumed, config_offset=ConfigOffset(0))
    return save(script.state, now_ms=0, wall_ms=wall_ms)


def _connect_membership(written: Document) -> Document:
    wall_ms = written["saved_at_ms"]
    script = declarative_script.Script(
        declarative_saved.resume(written, declarative_script.SETTINGS, now_ms=0, wall_ms=wall_ms)
    )
    script.feed(declarative_events.Resumed, config_offset=ConfigOffset(0))
    return declarative_saved.save(script.state, now_ms=0, wall_ms=wall_ms)


def _record(kind: Any) -> Callable[[Document], Document]:
    return lambda written: decode(encode(kind.from_json(decode(json.dumps(written).encode())).to_json()))


def _removed(written: Document) -> Document:
    """It stands in the last record of the job."""
    removal = Removal.from_json(decode(json.dumps(written).encode())[REMOVED])
    return {**_record(JobDefinition)(written), REMOVED: removal.to_json()}


def _trigger(kind: Callable[..., BaseTrigger]) -> Callable[[Document], Document]:
    return lambda written: kind(**written).serialize()[1]


AGAIN: Final[Mapping[str, Callable[[Document], Document]]] = {
    **{
        kind.__name__: _record(kind)
        for kind in (
            ActionEvent,
            ControlRecord,
            HaltRecord,
            JobDefinition,
            LevelsRecord,
            PlanRecord,
            RebalanceEvent,
            RebalanceRecord,
            RestartRecord,
            TaskEvent,
            TaskHaltRecord,
            TaskStatus,
            WorkerStatus,
        )
    },
    "removed": _removed,
    "GroupRecord": _record(ClassicRecord),
    "connect GroupRecord": _record(DeclarativeRecord),
    "membership": _membership,
    "connect membership": _connect_membership,
    "airflow_provider.triggers.coordinator.CoordinatorTrigger": _trigger(CoordinatorTrigger),
    "airflow_provider.triggers.group.GroupTrigger": _trigger(GroupTrigger),
    "airflow_provider.triggers.group_event.GroupEventTrigger": _trigger(GroupEventTrigger),
    "airflow_provider.triggers.worker.WorkerTrigger": _trigger(WorkerTrigger),
}
"""Reads a document, and gives what would be written of it today."""


def _documents() -> Iterator[Any]:
    for file in sorted((Path(__file__).parent / "golden").glob("[0-9]*.json")):
        for number, document in enumerate(json.loads(file.read_text())):
            yield pytest.param(document["type"], document["written"], id=f"{file.stem}-{number}-{document['type']}")


def _assert_kept(old: Any, new: Any, place: str) -> None:
    """Fields may have been added since, and none may be lost or mean something else."""
    if isinstance(old, Mapping):
        assert isinstance(new, Mapping), place
        for name, value in old.items():
            assert name in new, f"{place}.{name}"
            _assert_kept(value, new[name], f"{place}.{name}")
    elif isinstance(old, list):
        assert isinstance(new, list | tuple), place
        assert len(old) == len(new), place
        for number, value in enumerate(old):
            _assert_kept(value, new[number], f"{place}[{number}]")
    else:
        assert old == new, place


@pytest.mark.parametrize(("kind", "written"), list(_documents()))
def test_it_is_read_and_means_the_same(kind: str, written: Document) -> None:
    _assert_kept(written, json.loads(json.dumps(AGAIN[kind](written))), kind)


def test_there_is_a_document_of_each_kind() -> None:
    kinds = {parameters.values[0] for parameters in _documents()}
    assert kinds == AGAIN.keys()
