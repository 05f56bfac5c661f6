"""How a chosen member computes the group's assignment: prepare, compute, install.

Whatever goes wrong, the group keeps its assignment. If a request is refused because another member is chosen, or
because the assignment is invalid, the member gives up. If it is refused because the member's epoch has changed, or is
not answered, the member begins again after the answer to its next heartbeat; that says whether it is still chosen.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.group.declarative.member.events import (
    AssignmentComputed,
    ComputeAssignment,
    InstallAnswered,
    PrepareAnswered,
    PublishGroup,
    Request,
    RequestFailed,
)
from airflow_provider.group.declarative.member.state import Assigning
from airflow_provider.group.declarative.member.transition import Transition
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
)
from airflow_provider.group.machine.events import Warn
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

_AGAIN: Final = frozenset(
    {
        KafkaErrorCode.FENCED_MEMBER_EPOCH,
        KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
        KafkaErrorCode.NOT_COORDINATOR,
    }
)
_NOT_CHOSEN: Final = frozenset({KafkaErrorCode.UNKNOWN_MEMBER_ID, KafkaErrorCode.GROUP_ID_NOT_FOUND})
"""Another member computes, or no assignment is needed any more. This is normal, so nothing is logged."""


def chosen(member: Transition) -> None:
    """Note that the coordinator has chosen this member. Each answer says so until there is an assignment."""
    if member.state.assigning is Assigning.NOT:
        member.set(assigning=Assigning.WANTED)


def begin_if_wanted(member: Transition) -> None:
    """Ask for the group's state, with the epoch of the last answer."""
    state = member.state
    if state.assigning is not Assigning.WANTED:
        return
    body = ConnectGroupPrepareAssignmentRequest(
        group_id=state.settings.group_id, member_id=state.member_id, member_epoch=state.epoch
    )
    seq = member.ask(Request.PREPARE, body, state.session_ms)
    member.set(assigning=Assigning.PREPARING, assigning_seq=seq)


def on_prepare_answered(member: Transition, event: PrepareAnswered) -> None:
    """Run the assignor on the group's state."""
    if not _waits_for(member, event.seq, Assigning.PREPARING):
        return
    if event.reply.error_code:
        _refused(member, Request.PREPARE, event.reply.error_code, event.reply.error_message)
        return
    seq = member.state.seq + 1
    member.set(seq=seq, assigning=Assigning.COMPUTING, assigning_seq=seq)
    member.do(ComputeAssignment(seq=seq, prepared=event.reply))


def on_assignment_computed(member: Transition, event: AssignmentComputed) -> None:
    """Install the assignment. An error of the assignor is sent, too: then the group keeps its assignment."""
    if not _waits_for(member, event.seq, Assigning.COMPUTING):
        return
    state = member.state
    body = ConnectGroupInstallAssignmentRequest(
        group_id=state.settings.group_id,
        member_id=state.member_id,
        member_epoch=state.epoch,
        group_epoch=event.group_epoch,
        error=event.error,
        members=event.members,
        delayed=event.delayed,
    )
    seq = member.ask(Request.INSTALL, body, state.session_ms)
    member.set(assigning=Assigning.INSTALLING, assigning_seq=seq, unpublished=event.record)


def on_install_answered(member: Transition, event: InstallAnswered) -> None:
    """Publish the record of the installed assignment. This member's own part is in the answer to its held heartbeat, or
    to the next one.
    """
    if not _waits_for(member, event.seq, Assigning.INSTALLING):
        return
    if event.reply.error_code:
        _refused(member, Request.INSTALL, event.reply.error_code, event.reply.error_message)
    else:
        record = member.state.unpublished
        member.set(assigning=Assigning.NOT, assigning_seq=None, unpublished=None)
        if record is not None:
            member.do(PublishGroup(record=record))
        if member.state.awaiting is None and not member.state.revoked:
            member.hurry()


def on_failed(member: Transition, event: RequestFailed) -> None:
    """Begin again after a request without an answer. If the coordinator has carried it out, it says so then."""
    if event.seq == member.state.assigning_seq:
        member.set(assigning=Assigning.WANTED, assigning_seq=None)


def _waits_for(member: Transition, seq: int, step: Assigning) -> bool:
    return member.state.assigning is step and member.state.assigning_seq == seq


def _refused(member: Transition, request: Request, code: int, said: str | None) -> None:
    error = KafkaErrorCode(code)
    again = error in _AGAIN
    member.set(assigning=Assigning.WANTED if again else Assigning.NOT, assigning_seq=None)
    if not again and error not in _NOT_CHOSEN:
        why = f": {said}" if said else ""
        member.do(Warn(message=f"{request.value} was refused: {error.name}{why}; the group keeps its assignment"))
