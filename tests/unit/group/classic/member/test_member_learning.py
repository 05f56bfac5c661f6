"""A member of a group that speaks version 3 or 4: it learns tasks before they move, and gives up what others learn."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from member_script import NODE, OTHER, Script, tasks

from airflow_provider.assignment.learners.model import Limits
from airflow_provider.group.classic.member.events import (
    CoordinatorFound,
    LearnersReady,
    LearningProgressed,
    LeaveSoonRequested,
    MayLeave,
    Resumed,
    SendHeartbeat,
    SendJoin,
    StartLearning,
    StopLearning,
    Synced,
)
from airflow_provider.group.classic.member.lessons import Lessons
from airflow_provider.group.classic.member.saved import resume, save
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.classic.wire import LEARNING, v3, v4
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.machine.events import (
    Command,
    LeaveRequested,
    PublishAssignment,
    StartTasks,
    StopTasks,
    TasksFinished,
    TasksStopped,
    Warn,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import (
    NO_TASKS,
    ConfigOffset,
    ConnectProtocol,
    Epoch,
    SubProtocol,
    TaskId,
    WorkerId,
)
from airflow_provider.values.packed_tasks import PackedTasks

LEARNS = MemberSettings(group_id="g", worker=WorkerId("w"), protocol=ConnectProtocol.EXTENSIBLE)
A1 = TaskId("a", 1)
BEGUN = KafkaErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture(params=[SubProtocol.EXTENSIBLE, SubProtocol.COMPRESSED], autouse=True)
def spoken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SubProtocol:
    """The protocol of the group: all is the same in both."""
    monkeypatch.setattr(Learner, "protocol", request.param)
    protocol: SubProtocol = request.param
    return protocol


class Learner(Script):
    """A member that has joined a group in which tasks are learned."""

    protocol: ClassVar = SubProtocol.EXTENSIBLE

    def __init__(self, settings: MemberSettings = LEARNS, **state: Any) -> None:
        super().__init__(settings, **state)
        self.epoch = 0

    def told(self, target: str = "", learning: str = "", learned: str = "", **fields: Any) -> list[Command]:
        """The leader's word of the round that is complete now; the target is the whole."""
        self.epoch += 1
        return self.synced_with(
            ExtensibleAssignment(
                leader=self.state.leader,
                target=PackedTasks.of(tasks(target)),
                learning=PackedTasks.of(tasks(learning)),
                learned=PackedTasks.of(tasks(learned)),
                epoch=Epoch(self.epoch),
                **fields,
            )
        )

    def synced_with(self, assignment: ExtensibleAssignment) -> list[Command]:
        whole = replace(assignment, version=self.protocol.version)
        return self.feed(Synced, assignment=LEARNING[self.protocol].encode_assignment(whole))

    def round(self, target: str = "", learning: str = "", learned: str = "", **fields: Any) -> list[Command]:
        """A whole round."""
        self.joined(self.state.generation + 1, protocol=self.protocol)
        return self.told(target, learning, learned, **fields)

    def with_(self, target: str = "", learning: str = "", learned: str = "") -> Learner:
        self.joining()
        self.round(target, learning, learned)
        return self


def said(commands: list[Command]) -> ExtensibleState:
    """What a member says of itself when it joins."""
    (join,) = (command for command in commands if isinstance(command, SendJoin))
    offered = dict(join.protocols)
    assert list(offered) == ["compressed", "extensible", "sessioned", "compatible", "default"]
    whole, smaller = v3.decode_metadata(offered["extensible"]), v4.decode_metadata(offered["compressed"])
    assert smaller == replace(whole, version=4)
    return whole


def of(commands: list[Command], *kinds: type[Command]) -> list[Command]:
    return [command for command in commands if isinstance(command, kinds)]


def test_it_owns_the_target_and_learns_what_it_is_told_to() -> None:
    member = Learner()
    member.joining()
    commands = member.round("a0", "a1")
    assert of(commands, StartTasks, StartLearning) == [
        StartTasks(tasks=tasks("a0"), epoch=Epoch(1)),
        StartLearning(tasks=tasks("a1")),
    ]
    assert member.state.owned == tasks("a0")


def test_a_worker_that_comes_back_to_a_stable_group_knows_what_it_owns_without_a_record() -> None:
    member = Learner()
    member.joining()
    assert member.state.returning
    commands = member.round("a0 a1")
    assert member.state.running == tasks("a0 a1")
    assert member.state.record is None
    assert of(commands, PublishAssignment)


def test_when_it_is_ready_it_joins_again_and_says_so() -> None:
    member = Learner().with_("a0", "a1")
    assert member.feed(LearningProgressed, progress={A1: 0.4}) == []
    now = said(member.feed(LearningProgressed, progress={A1: 1.0}))
    assert now.owned.tasks() == tasks("a0")
    assert now.how_far() == {A1: 1.0}
    assert now.ready.tasks() == tasks("a1")


def test_ready_from_which_progress_on_is_a_setting() -> None:
    settings = MemberSettings(
        group_id="g", worker=WorkerId("w"), protocol=ConnectProtocol.EXTENSIBLE, limits=Limits(ready_from=0.9)
    )
    member = Learner(settings).with_("", "a1")
    assert member.feed(LearningProgressed, progress={A1: 0.89}) == []
    assert said(member.feed(LearningProgressed, progress={A1: 0.9})).ready.tasks() == tasks("a1")


def test_what_it_can_not_make_ready_it_joins_for_and_says_so() -> None:
    member = Learner().with_("a0", "a1 a2")
    commands = member.feed(LearningProgressed, progress={A1: 0.0, TaskId("a", 2): 0.5}, failed=tasks("a1 a7"))
    assert said(commands).failed.tasks() == tasks("a1")
    assert said(commands).ready.tasks() == tasks("")
    member.round("a0", "a1 a2")
    assert member.feed(LearningProgressed, progress={A1: 0.0}, failed=tasks("a1")) == [], "it has said so"
    member.heartbeat(BEGUN)
    member.round("a0", "a2")
    assert not member.state.lessons.failed


def steps_of_heartbeats(member: Learner) -> list[int]:
    """For 30 s after a round."""
    began, times = member.now, [member.now]
    while member.now < began + 30_000:
        times += [at for at, command in member.alarms(until=member.now + 10) if isinstance(command, SendHeartbeat)]
        member.heartbeat()
    return [after - before for before, after in pairwise(times)]


def test_while_another_round_is_known_to_be_near_it_asks_often_whether_it_has_begun() -> None:
    """Who stops something joins when that has stopped: all the others make it wait until they have heard of it."""
    member = Learner()
    member.joining()
    member.round("a0", another_round=True)
    near = steps_of_heartbeats(member)
    assert near[0] == LEARNS.fast_heartbeat_ms
    assert near == sorted(near)
    assert 0 < near[-1] <= 250
    member.heartbeat(BEGUN)
    member.round("a0")
    assert steps_of_heartbeats(member)[-1] == LEARNS.heartbeat_interval_ms


def test_it_says_how_many_tasks_it_runs_at_the_same_time() -> None:
    for slots in (4, None):
        member = Learner(replace(LEARNS, slots=slots))
        member.started()
        assert said(member.feed(CoordinatorFound, node=NODE)).slots == slots


def test_what_it_has_learned_it_starts_without_letting_go_of_it_first() -> None:
    member = Learner().with_("a0", "a1")
    member.feed(LearningProgressed, progress={A1: 1.0})
    commands = member.round("a0 a1")
    assert of(commands, StartTasks, StopLearning) == [StartTasks(tasks=tasks("a1"), epoch=Epoch(2))]


def test_what_it_need_not_learn_any_more_it_lets_go_of() -> None:
    member = Learner().with_("a0", "a1 a2")
    member.heartbeat(BEGUN)
    commands = member.round("a0", "a2")
    assert of(commands, StartLearning, StopLearning) == [StopLearning(tasks=tasks("a1"))]


def test_progress_of_what_it_does_not_learn_is_nothing_to_it() -> None:
    member = Learner().with_("a0", "a1")
    assert member.feed(LearningProgressed, progress={TaskId("b", 7): 1.0}) == []


def test_an_owner_stops_before_it_joins_what_it_knows_a_learner_to_be_ready_for() -> None:
    member = Learner().with_("a0 a1", learned="a0 a1")
    assert member.feed(LearnersReady, tasks=tasks("a1")) == []
    commands = member.heartbeat(BEGUN)
    assert commands == [StopTasks(tasks=tasks("a1"), reason=StopReason.LEARNED)]
    assert said(member.feed(TasksStopped, tasks=tasks("a1"))).owned.tasks() == tasks("a0")


def test_an_owner_that_knows_of_nobody_who_is_ready_joins_with_all_it_has() -> None:
    member = Learner().with_("a0 a1", learned="a0 a1")
    assert said(member.heartbeat(BEGUN)).owned.tasks() == tasks("a0 a1")


def test_the_leader_has_it_stopped_then_in_a_round_of_its_own() -> None:
    member = Learner().with_("a0 a1", learned="a1")
    member.heartbeat(BEGUN)
    commands = member.round("a0", revoked=PackedTasks.of(tasks("a1")))
    assert of(commands, StopTasks) == [StopTasks(tasks=tasks("a1"), reason=StopReason.REVOKED)]
    assert said(member.feed(TasksStopped, tasks=tasks("a1"))).owned.tasks() == tasks("a0")


def test_by_the_proposals_rule_an_owner_stops_all_that_is_learned_whenever_it_joins() -> None:
    settings = MemberSettings(
        group_id="g", worker=WorkerId("w"), protocol=ConnectProtocol.EXTENSIBLE, learned=LearnedRule.AT_REBALANCE
    )
    member = Learner(settings).with_("a0 a1 a2", learned="a0 a1")
    assert member.heartbeat(BEGUN) == [StopTasks(tasks=tasks("a0 a1"), reason=StopReason.LEARNED)]
    member.feed(TasksStopped, tasks=tasks("a0 a1"))
    assert of(member.round("a0 a1 a2", learned="a0 a1"), StartTasks) == [
        StartTasks(tasks=tasks("a0 a1"), epoch=Epoch(2))
    ]


def test_what_ends_while_the_group_rebalances_is_not_started_again_by_a_target_that_names_it() -> None:
    member = Learner().with_("a0 a1")
    member.heartbeat(BEGUN)
    member.joined(2, protocol=member.protocol)
    member.feed(TasksFinished, tasks=tasks("a1"))
    commands = member.told("a0 a1 a2")
    assert of(commands, StartTasks) == [StartTasks(tasks=tasks("a2"), epoch=Epoch(2))]
    assert member.state.owned == tasks("a0 a2")


def test_a_leader_that_is_behind_changes_nothing() -> None:
    member = Learner().with_("a0", "a1")
    member.heartbeat(BEGUN)
    member.joined(2, protocol=member.protocol)
    behind = ExtensibleAssignment(leader=OTHER, error=1)
    commands = member.synced_with(behind)
    assert of(commands, StartTasks, StopTasks, StartLearning, StopLearning) == []
    assert member.state.owned == tasks("a0")
    assert member.state.lessons.learning == tasks("a1")


def test_it_leaves_soon_and_is_told_when_it_has_nothing_left() -> None:
    member = Learner().with_("a0")
    now = said(member.feed(LeaveSoonRequested, reason="scaled down"))
    assert now.leaving == "scaled down"
    assert of(member.round("a0", learned="a0"), MayLeave) == []
    member.feed(LearnersReady, tasks=tasks("a0"))
    member.heartbeat(BEGUN)
    member.feed(TasksStopped, tasks=tasks("a0"))
    assert of(member.round(shutdown=True), MayLeave) == [MayLeave()]


@pytest.mark.parametrize("rule", LearnedRule)
def test_it_does_not_leave_with_what_it_has_only_stopped_for_a_learner(rule: LearnedRule) -> None:
    """Nobody may be ready for it after all: then it has it again."""
    member = Learner(replace(LEARNS, learned=rule)).with_("a0")
    member.feed(LeaveSoonRequested, reason="scaled down")
    member.round("a0", learned="a0")
    member.feed(LearnersReady, tasks=tasks("a0"))
    member.heartbeat(BEGUN)
    commands = member.feed(TasksStopped, tasks=tasks("a0"))
    assert of(commands, MayLeave) == []
    assert said(commands).leaving
    assert of(member.round("a0", learned="a0"), MayLeave, StartTasks) == [StartTasks(tasks=tasks("a0"), epoch=Epoch(3))]


def test_who_is_asked_while_it_joins_says_so_in_another_round() -> None:
    """Until it has its assignment it does not know what it has."""
    member = Learner()
    member.joining()
    assert of(member.feed(LeaveSoonRequested, reason="scaled down"), MayLeave) == []
    assert said(member.round()).leaving
    assert of(member.round(shutdown=True), MayLeave) == [MayLeave()]


@pytest.mark.parametrize("ended", [TasksFinished, TasksStopped])
def test_its_last_task_may_end_by_itself(ended: type[TasksFinished | TasksStopped]) -> None:
    member = Learner().with_("a0")
    member.feed(LeaveSoonRequested, reason="scaled down")
    member.round("a0")
    assert of(member.feed(ended, tasks=tasks("a0")), MayLeave) == [MayLeave()]


def test_who_has_nothing_may_leave_immediately() -> None:
    assert Learner().with_().feed(LeaveSoonRequested, reason="scaled down") == [MayLeave()]


def test_it_learns_nothing_any_more_when_it_leaves() -> None:
    member = Learner().with_("a0", "a1")
    assert of(member.feed(LeaveRequested, reason="-"), StopLearning) == [StopLearning(tasks=tasks("a1"))]


def test_it_learns_nothing_any_more_when_it_is_fenced() -> None:
    member = Learner().with_("a0", "a1")
    commands = member.heartbeat(KafkaErrorCode.FENCED_INSTANCE_ID)
    assert of(commands, StopLearning) == [StopLearning(tasks=tasks("a1"))]


def test_it_learns_nothing_any_more_in_a_group_that_has_gone_back_to_an_older_version() -> None:
    member = Learner().with_("a0", "a1")
    member.heartbeat(BEGUN)
    member.joined(2, protocol=SubProtocol.SESSIONED)
    commands = member.synced("a2", protocol=SubProtocol.SESSIONED)
    assert of(commands, StartTasks, StopTasks, StopLearning) == [
        StartTasks(tasks=tasks("a2"), epoch=Epoch(2)),
        StopLearning(tasks=tasks("a1")),
    ]
    assert member.state.owned == tasks("a0 a2")


def test_who_was_expelled_says_what_it_still_learns_when_it_joins_again() -> None:
    member = Learner().with_("", "a1")
    member.feed(LearningProgressed, progress={A1: 0.5})
    commands = member.heartbeat(KafkaErrorCode.UNKNOWN_MEMBER_ID)
    assert of(commands, StopLearning) == []
    assert said(commands).how_far() == {A1: 0.5}


def test_another_process_learns_anew_what_it_takes_over() -> None:
    member = Learner().with_("", "a1")
    member.feed(LearningProgressed, progress={A1: 0.5})
    saved = save(member.state, now_ms=member.now, wall_ms=1)
    other = Learner(state=resume(saved, LEARNS, now_ms=0, wall_ms=1))
    commands = other.feed(Resumed, config_offset=ConfigOffset(0), predecessor=Predecessor.GONE)
    assert of(commands, StartLearning) == [StartLearning(tasks=tasks("a1"))]
    assert other.state.lessons.how_far() == {A1: 0.0}


def test_a_leader_that_names_no_target_has_sent_no_assignment() -> None:
    """What it owns is not known then: it goes on with what it has, and joins again."""
    member = Learner().with_("a0")
    member.heartbeat(BEGUN)
    member.joined(2, protocol=member.protocol)
    commands = member.synced_with(ExtensibleAssignment(leader=OTHER))
    assert of(commands, Warn, StopTasks) == [
        Warn(
            message=f"the leader {OTHER!r} sent no assignment: target is missing, and no error says why; joining again"
        )
    ]
    assert (member.state.phase, member.state.owned) == (Phase.UNJOINED, tasks("a0"))


@pytest.mark.parametrize("target", ["", "a0"])
def test_who_leaves_soon_and_comes_back_to_a_stable_group_says_so_in_another_round(target: str) -> None:
    """The leader of the round that it is answered with has not heard of it."""
    member = Learner().with_("a0")
    member.feed(LeaveSoonRequested, reason="scaled down")
    member.round("a0", learned="a0")
    member.heartbeat(KafkaErrorCode.UNKNOWN_MEMBER_ID)
    member.feed(TasksStopped, tasks=tasks("a0"))
    commands = member.round(target)
    if not target:
        assert of(commands, MayLeave, SendJoin) == [MayLeave()]
        return
    assert said(commands).leaving
    assert of(member.round(target), SendJoin) == []


def test_what_it_has_learned_and_will_not_start_after_all_it_lets_go_of() -> None:
    """Its predecessor may run something, so it has not started yet what it is to give up again."""
    member = Learner()
    member.started(Predecessor.UNKNOWN)
    member.feed(CoordinatorFound, node=NODE)
    member.round("", "a0 a1")
    member.feed(LearningProgressed, progress={A1: 1.0})
    assert of(member.round("a0 a1"), StartTasks, StopLearning) == []
    member.heartbeat(BEGUN)
    commands = member.round("a0", revoked=PackedTasks.of(tasks("a1")))
    assert of(commands, StartTasks, StopTasks, StopLearning) == [StopLearning(tasks=tasks("a1"))]


def test_what_is_learned_anew_is_not_ready_because_it_was_before() -> None:
    lessons = Lessons(learned=frozenset({A1})).knowing(frozenset({A1}))
    assert lessons.to_stop(LearnedRule.WHEN_READY) == {A1}
    for learned in (NO_TASKS, frozenset({A1})):
        lessons = lessons.next(NO_TASKS, learned)
        assert lessons.to_stop(LearnedRule.WHEN_READY) == NO_TASKS
