"""Leads a round of version 3 or 4, in which tasks are learned before they move, and each worker is sent its target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider.assignment.learners import extensible_assignor
from airflow_provider.assignment.learners.model import READY, LearnerAssignment, LearnerMemory, LearnerRound
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.group.classic.leader.leader_input import Call
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.state.rounds.causes import names_in_short
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.status_view import can_be_counted_on
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import NO_TASKS, Epoch, TaskId, Tasks, WorkerId
from airflow_provider.values.packed_tasks import PackedTasks
from airflow_provider.values.replacing import replaced

States = Mapping[WorkerId, ExtensibleState]


def decide(call: Call, known: Round, memory: Memory, states: States) -> LearnerAssignment:
    """Compute the assignment of the round.

    :param known: the round without learner tasks
    :param memory: what is remembered of the last round for KIP-415's assignment
    """
    last = call.last_record
    learners = last.learner_memory if last is not None and last.learner_memory is not None else LearnerMemory()
    return extensible_assignor.assign(
        LearnerRound(
            **known.by_field,
            stateful=call.stateful,
            pending=_pending(call, known) if call.stateful else NO_TASKS,
            learning={
                name: _progress(state, said_since=call.ready.get(name, NO_TASKS))
                for name, state in states.items()
                if state.learning
            },
            failed={name: state.failed.tasks() for name, state in states.items() if state.failed},
            renewed=call.renewed,
            leaving_soon=_leaving_soon(states),
        ),
        replace(learners, cooperative=memory),
        policy=call.policy,
        limits=call.limits,
    )


def spoken_epoch(call: Call, states: States) -> Epoch:
    """The highest epoch in any record of a worker or a task, or in which a member was. What nobody can have counted up
    to is not believed.
    """
    said = (state.epoch for state in states.values() if state.epoch is not None)
    believed = (epoch for epoch in said if can_be_counted_on(epoch, call.now_ms))
    return max([call.spoken_epoch, *believed])


def _pending(call: Call, known: Round) -> Tasks:
    """The owned tasks that have not started: tasks that have started have a rank."""
    return NO_TASKS.union(*known.owned.values()).difference(call.revocation_rank)


def answer(
    header: ExtensibleAssignment, worker: WorkerId, decided: LearnerAssignment, epoch: Epoch, owned: PackedTasks
) -> ExtensibleAssignment:
    """The leader's answer to one worker. A worker whose metadata could not be read gets no tasks.

    :param header: what is the same in all answers
    :param owned: the tasks that the worker has said it owns
    """
    revoked = decided.revoked.get(worker, NO_TASKS)
    return replaced(
        header,
        target=_target(decided, worker, owned),
        revoked=PackedTasks.of(revoked),
        delay_ms=decided.delay_ms,
        learning=_packed(decided.learning, worker),
        learned=_packed(decided.learned, worker),
        another_round=decided.another_round_follows,
        shutdown=worker in decided.shutdown,
        epoch=epoch,
    )


def recorded(record: ClassicRecord, decided: LearnerAssignment, states: States) -> ClassicRecord:
    return replace(
        record,
        learning={worker: tasks for worker, tasks in decided.learning.items() if tasks},
        learned={worker: tasks for worker, tasks in decided.learned.items() if tasks},
        lessons=decided.lessons,
        given_up=decided.memory.given_up,
        leaving_soon=_leaving_soon(states),
        learner_memory=decided.memory,
    )


def wishes(states: States, last: ClassicRecord | None) -> str:
    """Why members have joined, in words: a learner is ready, or has failed, or a worker wants to leave soon. Empty: for
    other reasons.
    """
    return "; ".join(_wishes(states, last))


def _wishes(states: States, last: ClassicRecord | None) -> Iterator[str]:
    leaving = sorted(_leaving_soon(states) - (frozenset() if last is None else last.leaving_soon))
    ready = NO_TASKS.union(*(state.ready.tasks() for state in states.values()))
    failed = NO_TASKS.union(*(state.failed.tasks() for state in states.values()))
    if leaving:
        yield f"{names_in_short(leaving)} {'leave' if len(leaving) > 1 else 'leaves'} soon"
    if ready:
        yield f"a learner is ready for {in_short(sorted(ready))}"
    if failed:
        yield f"a learner could not make ready {in_short(sorted(failed))}"


def _leaving_soon(states: States) -> frozenset[WorkerId]:
    return frozenset(name for name, state in states.items() if state.leaving is not None)


def _progress(state: ExtensibleState, *, said_since: Tasks) -> dict[TaskId, float]:
    """The progress of a worker's learner tasks.

    :param said_since: tasks for which it is ready according to the status topic. It may have become ready after it had
        joined; the owner of such a task may have stopped it because of this record, so it must be known here, too
    """
    learns = state.how_far()
    return {**learns, **dict.fromkeys(state.ready.tasks() | (said_since & learns.keys()), READY)}


def _target(decided: LearnerAssignment, worker: WorkerId, owned: PackedTasks) -> PackedTasks:
    """A worker's target. For most workers it is what they own, and need not be packed again."""
    changes = decided.assigned.get(worker) or decided.revoked.get(worker)
    target = decided.target.get(worker, NO_TASKS)
    return owned if not changes and len(owned) == len(target) else PackedTasks.of(target)


def _packed(shares: Mapping[WorkerId, Tasks], worker: WorkerId) -> PackedTasks:
    return PackedTasks.of(shares.get(worker, NO_TASKS))
