"""Leads a round: from the metadata of all members (JoinGroup) to their assignments (SyncGroup)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider.assignment import cooperative_assignor, eager_assignor
from airflow_provider.assignment.balancing.portions import uneven
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.learners.model import LearnerAssignment
from airflow_provider.assignment.model import GroupAssignment, Memory, Move, MoveReason, Round
from airflow_provider.assignment.shares import minus, without
from airflow_provider.group.classic.leader import extensible_round
from airflow_provider.group.classic.leader.kept_failures import Kept, keeping, kept_of
from airflow_provider.group.classic.leader.leader_input import Call
from airflow_provider.group.classic.member.events import JoinedMember
from airflow_provider.group.classic.wire import CODECS
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment
from airflow_provider.state.rounds.causes import FOR_WHAT_WAITS, Cause, cause_of, lost_since
from airflow_provider.state.rounds.classic import ClassicRecord, epoch_of
from airflow_provider.state.rounds.unchanged_rounds import IN_A_ROW_MS
from airflow_provider.values.group_protocol.bridge import BRIDGE, stands_for
from airflow_provider.values.model import (
    NO_TASKS,
    Assignment,
    AssignmentError,
    ConfigOffset,
    Epoch,
    GenerationId,
    MalformedEmbeddedError,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
    WorkerState,
)
from airflow_provider.values.packed_tasks import NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAnswer:
    """The result of a leader.

    :param assignments: the assignments as bytes, for SyncGroup
    :param record: to be written when the coordinator has the assignments; None: nothing could be assigned
    :param unreadable: the workers whose metadata can't be read: they get no tasks
    :param unbelievable: the workers that say they have read beyond the end of the jobs topic, with their offsets. No
        leader could ever read so far, so these offsets are ignored
    """

    assignments: Mapping[MemberId, bytes]
    record: ClassicRecord | None
    unreadable: tuple[WorkerId, ...] = ()
    unbelievable: Mapping[WorkerId, ConfigOffset] = field(default_factory=dict)


def lead(call: Call) -> LeaderAnswer:
    names = {_name(member): member.member_id for member in call.members}
    codec = CODECS[call.protocol]
    states: dict[WorkerId, Any] = {}
    for member in call.members:
        try:
            states[_name(member)] = codec.decode_metadata(member.metadata)
        except MalformedEmbeddedError:
            continue
    unreadable = tuple(sorted(names.keys() - states.keys()))
    leader = next(name for name, member_id in names.items() if member_id == call.leader)
    header = _header(call, states[leader].url if leader in states else "")
    offsets = {name: state.config_offset for name, state in states.items()}
    unbelievable = {
        name: offset for name, offset in offsets.items() if call.jobs_end is not None and offset > call.jobs_end
    }
    furthest = max((offset for name, offset in offsets.items() if name not in unbelievable), default=call.config_offset)
    if call.config_offset < furthest:
        mismatch = replace(header, error=AssignmentError.CONFIG_MISMATCH, config_offset=furthest)
        behind = codec.encode_assignment(mismatch)
        assignments = dict.fromkeys(names.values(), behind)
        return LeaderAnswer(assignments=assignments, record=None, unreadable=unreadable, unbelievable=unbelievable)

    said = extensible_round.wishes(states, call.last_record) if call.protocol.learns else ""
    cause = cause_of(names, call.absent, call.last_record, now_ms=call.now_ms, wishes=said, otherwise=call.reason)
    answers, record = _lead(call, names, leader, states, header, cause)
    assignments = {member_id: codec.encode_assignment(answers[name]) for name, member_id in names.items()}
    return LeaderAnswer(assignments=assignments, record=record, unreadable=unreadable, unbelievable=unbelievable)


def _header(call: Call, leader_url: str) -> Assignment | ExtensibleAssignment:
    """What is the same in all assignments."""
    kind = ExtensibleAssignment if call.protocol.learns else Assignment
    return kind(
        version=call.protocol.version, leader=call.leader, leader_url=leader_url, config_offset=call.config_offset
    )


def _lead(
    call: Call,
    names: Mapping[WorkerId, MemberId],
    leader: WorkerId,
    states: Mapping[WorkerId, Any],
    header: Assignment | ExtensibleAssignment,
    cause: Cause,
) -> tuple[Mapping[WorkerId, Assignment | ExtensibleAssignment], ClassicRecord]:
    """The assignments of all members, and the record of the round."""
    if isinstance(header, ExtensibleAssignment):
        owned = {name: state.owned.tasks() for name, state in states.items()}
        kept = kept_of(owned, call.failed)
        call = replace(call, spoken_epoch=extensible_round.spoken_epoch(call, states))
        known, memory = _known(call, owned, kept, cause)
        learners = keeping(extensible_round.decide(call, known, memory, states), kept.shares)
        record = _record(call, names, leader, learners, learners.memory.cooperative, cause)
        targets = {
            name: extensible_round.answer(
                header, name, learners, record.epoch, states[name].owned if name in states else NOTHING
            )
            for name in names
        }
        return targets, extensible_round.recorded(record, learners, states)
    decided = _decide(call, states, cause)
    differences = {
        name: replace(
            header,
            assigned=decided.assigned.get(name, NO_TASKS),
            revoked=decided.revoked.get(name, NO_TASKS),
            delay_ms=decided.delay_ms,
        )
        for name in names
    }
    return differences, _record(call, names, leader, decided, decided.memory, cause)


def _record(
    call: Call,
    names: Mapping[WorkerId, MemberId],
    leader: WorkerId,
    decided: GroupAssignment | LearnerAssignment,
    memory: Memory,
    cause: Cause,
) -> ClassicRecord:
    epoch = _epoch(call)
    return ClassicRecord(
        epoch=epoch,
        generation=call.generation,
        leader=leader,
        leader_member=call.leader,
        protocol=call.protocol.recorded,
        config_offset=call.config_offset,
        members=names,
        assignment=decided.target,
        revoked={worker: tasks for worker, tasks in decided.revoked.items() if tasks},
        moves=decided.moves,
        delay_ms=decided.delay_ms,
        reason=cause.reason,
        step=cause.step,
        at_ms=call.now_ms,
        memory=memory,
        policy=call.policy if call.protocol.cooperative else None,
        lost=lost_since(names, call.absent, call.last_record),
        slots=uneven(names, call.costs.slots),
        bridged_since=_bridged_since(call, epoch) if BRIDGE in names else None,
        unchanged=0 if _changes(decided, call.last_record) else _unchanged(call, frozenset(names), memory),
    )


def _epoch(call: Call) -> Epoch:
    """The epoch of this round: above the epochs in all records, and of the rounds that members say they were in. The
    last group record alone does not tell: it is lost if the leader dies before it has written it, and the coordinator
    may have forgotten the group's generation.
    """
    last = call.last_record
    epoch = epoch_of(call.generation, call.leader, last)
    if last is not None and last.is_round(call.generation, call.leader):
        return epoch
    return max(epoch, Epoch(call.spoken_epoch + 1))


def _bridged_since(call: Call, epoch: Epoch) -> Epoch | None:
    """Since which round the bridge, which is in this one, has certainly been in the group; None: not known."""
    last = call.last_record
    if last is None or BRIDGE not in last.members or not _is_of_last_round(call, last):
        return epoch
    return last.bridged_since


def _changes(decided: GroupAssignment | LearnerAssignment, last: ClassicRecord | None) -> bool:
    """Whether a task moves, or begins to be learned. If a worker still claims tasks that the last round has revoked, it
    is told again to stop them; this does not count, however often it happens.
    """
    told = {} if last is None else last.revoked
    moves = any(
        move.source is None or move.target is not None or not move.tasks <= told.get(move.source, NO_TASKS)
        for move in decided.moves
    )
    return moves or (isinstance(decided, LearnerAssignment) and bool(decided.lessons))


def _unchanged(call: Call, members: frozenset[WorkerId], memory: Memory) -> int:
    """How many rounds in a row have changed nothing: the same members, no moves, and the same delays. Rounds that are
    far apart do not count as in a row (``IN_A_ROW_MS``).
    """
    last = call.last_record
    if last is None or members != last.members.keys() or call.now_ms - last.at_ms > IN_A_ROW_MS:
        return 0
    same_delays = sorted(memory.ends_ms) == sorted(last.memory.ends_ms)
    return last.unchanged + 1 if same_delays else 0


def _name(member: JoinedMember) -> WorkerId:
    """A member's name: the instance id of a static member, the member id of a dynamic one (a Java Connect worker)."""
    return WorkerId(member.instance_id or member.member_id)


def _decide(call: Call, states: Mapping[WorkerId, WorkerState], cause: Cause) -> GroupAssignment:
    if call.protocol is SubProtocol.DEFAULT:
        return _decide_eagerly(call, frozenset(states), _costs(call, states))
    owned = {name: state.owned for name, state in states.items()}
    kept = kept_of(owned, call.failed)
    known, memory = _known(call, owned, kept, cause)
    known = replace(known, costs=_costs(call, states))
    return keeping(cooperative_assignor.assign(known, memory, policy=call.policy), kept.shares)


def _costs(call: Call, states: Mapping[WorkerId, WorkerState]) -> Costs:
    """What is known of costs and slots, and for how many workers a bridge stands."""
    return replace(call.costs, stands_for={BRIDGE: stands_for(states[BRIDGE].url)}) if BRIDGE in states else call.costs


def _known(call: Call, owned: Mapping[WorkerId, Tasks], kept: Kept, cause: Cause) -> tuple[Round, Memory]:
    """The input of the assignor, and what is remembered of the last round."""
    memory, last_completed = _memory(call)
    if call.asked_for:
        memory = memory.overdue(call.now_ms)
    ended = minus(call.ended, kept.disputed)
    known = Round(
        now_ms=call.now_ms,
        generation=call.generation,
        last_completed=last_completed,
        configured=call.configured,
        owned={name: without(tasks, ended) for name, tasks in owned.items()},
        revocation_rank=call.revocation_rank,
        named=call.named,
        absent=call.absent,
        draining=call.draining,
        stays=frozenset(call.revocation_rank) if cause.reason in FOR_WHAT_WAITS else NO_TASKS,
        costs=call.costs,
        tried=call.tried,
    )
    return known, memory


def _memory(call: Call) -> tuple[Memory, GenerationId]:
    """The memory in the last record, and the generation that the group has completed last, as far as this is known.

    The record is known to be of the last completed round if this member has completed that round too, or if no
    generation lies between that round and this one. Otherwise the generations differ, and the assignor behaves as
    KIP-415 says a new leader must: it starts no delay, but continues one that runs. While a delay runs, only new tasks
    are assigned. So tasks that were lost then are still lost, even if rounds have failed or left no record since.
    """
    record = call.last_record
    if record is None:
        return Memory(), call.last_completed
    known = _is_of_last_round(call, record)
    if known or max(record.deadline_ms, *record.memory.ends_ms, 0) > call.now_ms:
        return record.memory, record.memory.generation
    return record.memory, call.last_completed


def _is_of_last_round(call: Call, record: ClassicRecord) -> bool:
    """Whether this record is known to be of the last completed round."""
    return record.generation in (call.last_completed, call.generation - 1)


def _decide_eagerly(call: Call, members: frozenset[WorkerId], costs: Costs) -> GroupAssignment:
    """Assign all tasks; but in the first round after a cooperative one assign none. The members joined that round with
    running tasks, and stop them only now (KIP-415, downgrade). They join again, and get their tasks in the next round.
    """
    last = call.last_record
    target = assigned = eager_assignor.assign(members, call.configured, costs)
    if not _all_have_stopped(call):
        target, assigned = dict.fromkeys(members, NO_TASKS), _downgrade_assignment(call)
    before = {} if last is None else {task: worker for worker, tasks in last.assignment.items() for task in tasks}
    ways: defaultdict[tuple[WorkerId | None, WorkerId], set[TaskId]] = defaultdict(set)
    for worker, tasks in sorted(target.items()):
        for task in sorted(tasks):
            ways[before.get(task), worker].add(task)
    moves = tuple(
        Move(tasks=frozenset(tasks), source=source, target=worker, reason=MoveReason.EAGER)
        for (source, worker), tasks in ways.items()
        if source != worker
    )
    return GroupAssignment(
        assigned=assigned,
        revoked=dict.fromkeys(members, NO_TASKS),
        target=target,
        delay_ms=0,
        # In the next round no member owns tasks, but none of them are lost.
        memory=Memory(generation=call.generation, members=members),
        moves=moves,
    )


def _all_have_stopped(call: Call) -> bool:
    """Whether no member that has joined this eager round still runs tasks: the round before was eager, too, or assigned
    none. That round must be known, because the record of a cooperative one may be lost or not written yet. If the group
    was formed anew, there was none.
    """
    last = call.last_record
    if call.generation == 1:
        return True
    if last is None or last.generation != call.generation - 1:
        return False
    return not last.protocol.cooperative or not any(last.assignment.values())


def _downgrade_assignment(call: Call) -> dict[WorkerId, Tasks]:
    """What the first assignment of a downgrade contains: for workers of Java Connect the tasks that they have, for all
    others nothing.

    Before a Java worker joins an eager group, it stops the tasks in its last assignment, and no others. A task from
    before the downgrade that is not in it would run for ever, beside the worker that gets it next (KAFKA-13816). Java
    workers are recognized by their lack of an instance id: Connect has no static members, and this provider no others.
    """
    last = call.last_record
    if last is None or not _is_of_last_round(call, last):
        return {}  # other rounds have passed since, so it is not known which worker has which tasks
    return {
        name: last.owned_by(name) & call.configured
        for name in (_name(member) for member in call.members if member.instance_id is None)
    }
