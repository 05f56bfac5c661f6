"""A declarative group as ``cospark groups`` shows it: by the records of its coordinators."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from coordinated import GROUP, W1, W2, Shard, tasks
from stand_ins import MemoryTopics

from airflow_provider.cli.group_commands import declarative_groups
from airflow_provider.cli.group_commands import groups as groups_module
from airflow_provider.cli.main import main
from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.protocol.sharding import partition_of
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import InstalledMember
from airflow_provider.group.declarative.report import phase
from airflow_provider.group.declarative.server.errors import ShardError
from airflow_provider.group.declarative.server.shard_records import reading
from airflow_provider.kafka.group_requests.messages import GroupDescription, ListGroupsResponse
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.administration.topic_admin import FoundTopic
from airflow_provider.kafka.topics.errors import RightsError
from airflow_provider.state.records import JobDefinition
from airflow_provider.state.rounds.declarative import DeclarativeRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch, WorkerId

ALL, OF_A, OF_B = tasks("AC0", "AT1", "BC0"), tasks("AC0", "AT1"), tasks("BC0")
SETTINGS = KafkaSettings(conn_id="k", values=(("bootstrap.servers", "nowhere:9"),))


@pytest.fixture
def moving() -> Shard:
    """W1 was asked to stop what W2 is to have."""
    shard = Shard()
    shard.read_jobs(ALL)
    shard.join(W1)
    shard.compute(W1, {W1: ALL})
    shard.heartbeat(W1, 0)
    shard.join(W2)
    shard.heartbeat(W1, 1)
    shard.compute(W1, {W1: OF_A, W2: OF_B})
    shard.heartbeat(W1, 1)
    return shard


class Broker:
    """Knows of no classic group."""

    async def describe(self, groups: list[str]) -> list[GroupDescription]:
        return [GroupDescription(error=KafkaErrorCode.GROUP_ID_NOT_FOUND, group_id=group) for group in groups]

    async def list_groups(self) -> ListGroupsResponse:
        return ListGroupsResponse(error=KafkaErrorCode.NONE, groups=())


@pytest.fixture
async def topics() -> MemoryTopics:
    """What the group's members have written of themselves."""
    return MemoryTopics(GROUP)


@pytest.fixture
def cospark(monkeypatch: pytest.MonkeyPatch, moving: Shard, topics: MemoryTopics) -> Callable[..., int]:
    @asynccontextmanager
    async def transport(_settings: object) -> AsyncIterator[Broker]:
        yield Broker()

    monkeypatch.setattr(groups_module, "shared_transport", transport)
    monkeypatch.setattr(groups_module, "GroupTopics", lambda _settings, _group: topics)
    monkeypatch.setattr(groups_module, "list_groups", lambda _settings: [GROUP])
    monkeypatch.setattr(
        declarative_groups, "read_groups", lambda _settings, *, timeout_s, only=None: moving.coordinator.groups
    )
    return lambda *action: main(["groups", *action, "--bootstrap-servers", "nowhere:9"])


def test_epochs_target_and_current_are_shown_and_who_waits_for_whom(
    cospark: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cospark("describe", GROUP) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "group g: Reconciling, protocol connect"
    at = lines.index("Group (epoch=2)")
    assert lines[at:] == [
        "Group (epoch=2)",
        "  W1",
        "  W2",
        "Target Assignment (epoch=2)",
        "  W1 - connectorsAndTasks=[A:planner, A:1]",
        "  W2 - connectorsAndTasks=[B:planner]",
        "Member Assignment",
        "  W1 - epoch=1, connectorsAndTasks=[A:planner, A:1], revoking=[B:planner]",
        "  W2 - epoch=1, connectorsAndTasks=[], waits for [B:planner of W1]",
    ]


@pytest.mark.parametrize("epoch", [1, 2])
async def test_who_has_what_is_of_one_moment_whatever_was_written_of_an_earlier_one(
    cospark: Callable[..., int], topics: MemoryTopics, capsys: pytest.CaptureFixture[str], epoch: int
) -> None:
    """The record of a target is written when it was taken: the next one may have been by then."""
    await topics.submit(JobDefinition(name="B", entry_point="m:f"))
    first = DeclarativeRecord(
        epoch=Epoch(epoch),
        leader=WorkerId(W1),
        config_offset=topics.jobs.offset,
        members={WorkerId(W1): W1},
        assignment={WorkerId(W1): ALL},
        revoked={},
        moves=(),
        delay_ms=0,
        reason="with W1",
        at_ms=1,
    )
    await topics.publish_group(first)
    assert await asyncio.to_thread(cospark, "describe", GROUP, "--json") == 0
    about = json.loads(capsys.readouterr().out)
    declared = about["declarative"]
    assert about["epoch"] == declared["assignment_epoch"] == 2
    assert [(member["worker"], member["assigned"]) for member in about["members"]] == [("W1", []), ("W2", [["B", -1]])]
    assert about["tasks"]["B:planner"]["worker"] == "W2"
    assert about["converged"] is False
    said = (None, None) if epoch == 1 else ("W1", "with W1")
    assert (about["leader"], about["because"]) == said, "only of this target it tells more"
    assert await asyncio.to_thread(cospark, "describe", GROUP) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == ("epoch 2 (not converged)" if epoch == 1 else "epoch 2 (not converged), led by W1")
    assert "  (members, targets and assignments are from one moment, what workers and tasks say is later)" in lines


def test_the_same_as_json(cospark: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert cospark("describe", GROUP, "--json") == 0
    about = json.loads(capsys.readouterr().out)
    assert [member["worker"] for member in about["members"]] == ["W1", "W2"]
    declarative = about["declarative"]
    assert (declarative["epoch"], declarative["assignment_epoch"], declarative["delayed"]) == (2, 2, {})
    w1, w2 = declarative["members"]
    assert (w1["epoch"], w1["state"], w1["revoking"]) == (1, "unrevoked", [["B", -1]])
    assert (w2["target"], w2["assigned"], w2["removed"]) == ([["B", -1]], [], False)
    assert w2["waits_for"] == [{"task": ["B", -1], "holder": "W1"}]


def test_what_waits_for_one_that_has_left_is_shown_by_its_name() -> None:
    """Its own record has that name, and says whether it waits for Airflow."""
    shard = Shard()
    shard.read_jobs(ALL)
    shard.join(W1)
    shard.join(W2, instance_id="second")
    shard.compute(W1, {W1: OF_A, W2: OF_B})
    shard.heartbeat(W1, 0)
    shard.heartbeat(W2, 0)
    shard.leave(W2)
    shard.heartbeat(W1, 2)
    waits = (InstalledMember(member_id=W2, connectors_and_tasks=units_of(OF_B)),)
    assert shard.install(W1, 2, shard.prepare(W1, 2).group_epoch, {W1: OF_A}, delayed=waits).error_code == 0
    shard.fail_over()
    shown = declarative_groups.as_of(shard.group, JobsSnapshot(), StatusSnapshot()).group
    assert shown is not None
    assert shown.waiting_by_worker == {WorkerId("second"): OF_B}


def test_it_is_listed(cospark: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert cospark("list") == 0
    assert capsys.readouterr().out.splitlines() == ["g: Reconciling"]


def test_who_may_not_read_the_records_sees_the_rest(
    cospark: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_settings: object, *, timeout_s: float, only: str | None = None) -> None:
        raise ShardError("no right")

    monkeypatch.setattr(declarative_groups, "read_groups", refused)
    assert cospark("describe", GROUP) == 0
    said = capsys.readouterr()
    assert "may be missing or incomplete: no right" in said.err
    assert said.out.startswith("group g: no worker is in it")


def test_how_far_a_group_is(moving: Shard) -> None:
    assert phase(moving.group) == "Reconciling"
    moving.heartbeat(W1, 1, owned=OF_A)
    moving.heartbeat(W2, 1)
    assert phase(moving.group) == "Stable"
    moving.read_jobs(OF_A)
    assert phase(moving.group) == "Assigning"
    assert phase(Shard().coordinator.groups.get(GROUP, GroupState(GROUP))) == "Empty"


def test_only_the_shard_of_the_group_is_read(monkeypatch: pytest.MonkeyPatch, moving: Shard) -> None:
    found: FoundTopic | None = FoundTopic(4, frozenset())
    asked: list[int] = []

    class Admin:
        def __init__(self, _config: object, _outage: object) -> None: ...

        def close(self) -> None: ...

        async def look_at(self, _topic: str, *, timeout_s: float) -> FoundTopic | None:
            return found

    def records(_config: object, shard: int, *, given_up: Callable[[], bool]) -> list[tuple[bytes, bytes | None, int]]:
        assert not given_up()
        asked.append(shard)
        mine = partition_of(GROUP, 4) == shard
        return [(key, value, at) for at, (key, value) in enumerate(moving.log)] if mine else []

    monkeypatch.setattr(reading, "TopicAdmin", Admin)
    monkeypatch.setattr(reading, "read_moment", records)
    assert reading.read_groups(SETTINGS, timeout_s=5, only=GROUP)[GROUP].epoch == 2
    assert asked == [partition_of(GROUP, 4)]
    assert set(reading.read_groups(SETTINGS, timeout_s=5)) == {GROUP}
    assert reading.read_groups(SETTINGS, timeout_s=5, only="other") == {}
    assert set(reading.read_groups(SETTINGS, timeout_s=0)) == {GROUP}, "it reads on as long as there is progress"
    found = FoundTopic(0, frozenset())  # to who may not know whether it exists
    with pytest.raises(RightsError, match="no right to READ on the topic '__worker_offsets'"):
        reading.read_groups(SETTINGS, timeout_s=5)
    found = None
    assert reading.read_groups(SETTINGS, timeout_s=5) == {}
