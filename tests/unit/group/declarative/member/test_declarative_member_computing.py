"""A chosen member of a declarative group: how it prepares, computes and installs, and when the delay is over."""

from __future__ import annotations

import dataclasses

import pytest
from declarative_script import (
    ASSIGNORS,
    INTERVAL_MS,
    ME,
    Script,
    only_heartbeat,
    others,
    tasks,
)

from airflow_provider.group.declarative.member.events import (
    AssignmentComputed,
    AssignorsChanged,
    ComputeAssignment,
    DelaySet,
    InstallAnswered,
    PrepareAnswered,
    Request,
    SendRequest,
    TellDelayOver,
)
from airflow_provider.group.declarative.member.state import Assigning, Phase
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    InstalledMember,
)
from airflow_provider.group.machine.events import TasksStopped, Warn
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode


def unchanged(epoch: int) -> ConnectGroupHeartbeatRequest:
    return ConnectGroupHeartbeatRequest(group_id="g", member_id=ME, member_epoch=MemberEpoch(epoch))


PREPARED = ConnectGroupPrepareAssignmentResponse(group_epoch=GroupEpoch(7), assignor_name="cooperative")
COMPUTED = (InstalledMember(member_id=ME, connectors_and_tasks=units_of(tasks("a0"))),)


def chosen(script: Script) -> int:
    """It has asked for the group's state, and let the coordinator have a heartbeat to answer.

    :returns: the number of that request
    """
    prepare, heartbeat = script.answered(5, error=KafkaErrorCode.COMPUTE_ASSIGNMENT)
    assert isinstance(prepare, SendRequest)
    assert only_heartbeat([heartbeat]) == unchanged(5)
    assert prepare.body == ConnectGroupPrepareAssignmentRequest(group_id="g", member_id=ME, member_epoch=MemberEpoch(5))
    return prepare.seq


def test_who_is_chosen_prepares_computes_and_installs() -> None:
    script = Script().stable("a0")
    seq = chosen(script)
    (compute,) = script.feed(PrepareAnswered, seq=seq, sent_at_ms=0, reply=PREPARED)
    assert isinstance(compute, ComputeAssignment)
    assert compute.prepared == PREPARED
    (install,) = script.feed(
        AssignmentComputed, seq=compute.seq, group_epoch=GroupEpoch(7), members=COMPUTED, delayed=()
    )
    assert isinstance(install, SendRequest)
    assert install.body == ConnectGroupInstallAssignmentRequest(
        group_id="g", member_id=ME, member_epoch=MemberEpoch(5), group_epoch=GroupEpoch(7), members=COMPUTED
    )
    done = script.feed(InstallAnswered, seq=install.seq, sent_at_ms=0, reply=ConnectGroupInstallAssignmentResponse())
    assert done == [], "what comes of it is the answer to the heartbeat that the coordinator has"
    assert script.state.assigning is Assigning.NOT


def test_without_a_heartbeat_at_the_coordinator_it_sends_one_when_it_has_installed() -> None:
    script = Script().stable("a0")
    (compute,) = script.feed(PrepareAnswered, seq=chosen(script), sent_at_ms=0, reply=PREPARED)
    script.answered(5)
    assert isinstance(compute, ComputeAssignment)
    (install,) = script.feed(AssignmentComputed, seq=compute.seq, group_epoch=GroupEpoch(7), members=COMPUTED)
    assert isinstance(install, SendRequest)
    done = script.feed(InstallAnswered, seq=install.seq, sent_at_ms=0, reply=ConnectGroupInstallAssignmentResponse())
    assert only_heartbeat(done) == unchanged(5), "to hear what comes of it"


def test_it_says_nothing_when_it_has_installed_while_it_stops_what_was_revoked() -> None:
    script = Script().stable("a0 a1")
    (compute,) = script.feed(PrepareAnswered, seq=chosen(script), sent_at_ms=0, reply=PREPARED)
    assert isinstance(compute, ComputeAssignment)
    (install,) = script.feed(AssignmentComputed, seq=compute.seq, group_epoch=GroupEpoch(7), members=COMPUTED)
    assert isinstance(install, SendRequest)
    script.answered(5, "a0")
    done = script.feed(InstallAnswered, seq=install.seq, sent_at_ms=0, reply=ConnectGroupInstallAssignmentResponse())
    assert done == []
    assert only_heartbeat(script.feed(TasksStopped, tasks=tasks("a1"))).connectors_and_tasks == units_of(tasks("a0"))


def test_who_is_told_again_while_it_computes_goes_on() -> None:
    script = Script().stable("a0")
    chosen(script)
    script.alarms(until=INTERVAL_MS)
    assert others(script.answered(5, error=KafkaErrorCode.COMPUTE_ASSIGNMENT)) == []
    assert script.state.assigning is Assigning.PREPARING


def test_an_error_of_the_assignor_is_installed() -> None:
    script = Script().stable("a0")
    seq = chosen(script)
    (compute,) = script.feed(PrepareAnswered, seq=seq, sent_at_ms=0, reply=PREPARED)
    assert isinstance(compute, ComputeAssignment)
    (install,) = script.feed(AssignmentComputed, seq=compute.seq, group_epoch=GroupEpoch(7), error=3)
    assert isinstance(install, SendRequest)
    assert isinstance(install.body, ConnectGroupInstallAssignmentRequest)
    assert (install.body.error, install.body.members) == (3, ())


@pytest.mark.parametrize("request_", [Request.PREPARE, Request.INSTALL])
@pytest.mark.parametrize(
    ("error", "again", "warns"),
    [
        (KafkaErrorCode.UNKNOWN_MEMBER_ID, False, False),
        (KafkaErrorCode.GROUP_ID_NOT_FOUND, False, False),
        (KafkaErrorCode.FENCED_MEMBER_EPOCH, True, False),
        (KafkaErrorCode.NOT_COORDINATOR, True, False),
        (KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True, False),
        (KafkaErrorCode.INVALID_ASSIGNMENT, False, True),
        (KafkaErrorCode.GROUP_AUTHORIZATION_FAILED, False, True),
        (None, True, False),
    ],
)
def test_what_is_refused_is_given_up_or_begun_anew_with_the_next_answer(
    request_: Request, error: KafkaErrorCode | None, *, again: bool, warns: bool
) -> None:
    script = Script().stable("a0")
    seq = chosen(script)
    if request_ is Request.INSTALL:
        (compute,) = script.feed(PrepareAnswered, seq=seq, sent_at_ms=0, reply=PREPARED)
        assert isinstance(compute, ComputeAssignment)
        (install,) = script.feed(AssignmentComputed, seq=compute.seq, group_epoch=GroupEpoch(7), members=COMPUTED)
        assert isinstance(install, SendRequest)
        seq = install.seq
    if error is None:
        commands = script.failed(request_, seq=seq)
    elif request_ is Request.PREPARE:
        refusal = ConnectGroupPrepareAssignmentResponse(error_code=error)
        commands = script.feed(PrepareAnswered, seq=seq, sent_at_ms=0, reply=refusal)
    else:
        commands = script.feed(
            InstallAnswered, seq=seq, sent_at_ms=0, reply=ConnectGroupInstallAssignmentResponse(error_code=error)
        )
    assert [isinstance(command, Warn) for command in commands] == ([True] if warns else [])
    assert script.state.phase is Phase.STABLE
    script.alarms(until=INTERVAL_MS)
    prepares = [
        command
        for command in script.answered(6)
        if isinstance(command, SendRequest) and command.request is Request.PREPARE
    ]
    assert [command.body.member_epoch for command in prepares] == ([6] if again else [])


def test_a_late_result_of_what_was_given_up_does_nothing() -> None:
    script = Script().stable("a0")
    seq = chosen(script)
    script.failed(Request.PREPARE, seq=seq)
    before = script.state
    assert script.feed(PrepareAnswered, seq=seq, sent_at_ms=0, reply=PREPARED) == []
    assert script.feed(AssignmentComputed, seq=seq, group_epoch=GroupEpoch(7)) == []
    assert script.state == before


def test_chosen_by_a_reply_that_says_no_more_its_lease_and_epoch_stay() -> None:
    script = Script().stable("a0")
    lease = script.state.lease_until
    commands = script.at(500).refused(KafkaErrorCode.COMPUTE_ASSIGNMENT)
    assert [command.request for command in commands if isinstance(command, SendRequest)] == [Request.PREPARE]
    assert (script.state.epoch, script.state.lease_until) == (5, lease)


# ---- the delay


def test_when_the_delay_is_over_its_assignors_say_so_immediately() -> None:
    script = Script().stable("a0")
    script.answered(5)
    script.feed(DelaySet, over_at_ms=1_000, over_ms=77)
    assert script.alarms(until=1_000) == [(1_000, TellDelayOver(over_ms=77))]
    over = tuple(dataclasses.replace(one, reason=1, metadata=b"over") for one in ASSIGNORS)
    asked = only_heartbeat(script.feed(AssignorsChanged, assignors=over))
    assert asked == dataclasses.replace(unchanged(5), client_assignors=over)
    script.answered(5)
    assert script.feed(AssignorsChanged, assignors=over) == [], "once"


def test_another_assignment_may_have_another_delay_or_none() -> None:
    script = Script().stable("a0")
    script.answered(5)
    script.feed(DelaySet, over_at_ms=1_000, over_ms=77)
    script.feed(DelaySet)
    assert not [command for _, command in script.alarms(until=2_000) if isinstance(command, TellDelayOver)]
