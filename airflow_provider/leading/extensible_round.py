"""What a leader does in a round of version 3: from what workers have, learn and wish to whole targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider.assignors.model import Memory, Round
from airflow_provider.leading.call import Call
from airflow_provider.leading.causes import names_in_short
from airflow_provider.learners import extensible
from airflow_provider.learners.model import READY, LearnerAssignment, LearnerMemory, LearnerRound
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.protocol.in_short import in_short
from airflow_provider.protocol.model import NO_TASKS, Epoch, TaskId, Tasks, WorkerId
from airflow_provider.protocol.packed_tasks import PackedTasks
from airflow_provider.protocol.replacing import replaced

States = Mapping[WorkerId, ExtensibleState]


def decide(call: Call, known: Round, memory: Memory, states: States) -> LearnerAssignment:
    """Compute the round.

    :param known: what the round is without learning
    :param memory: what of the last one KIP-415 remembers
    """
    last = call.last_record
    learners = last.learner_memory if last is not None and last.learner_memory is not None else LearnerMemory()
    return extensible.assign(
        LearnerRound.beyond(
            known,
            stateful=call.stateful,
            pending=_pending(call, known) if call.stateful else NO_TASKS,
            learning={
                name: _how_far(state, said_since=call.ready.get(name, NO_TASKS))
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


def _pending(call: Call, known: Round) -> Tasks:
    """What has started has a rank."""
    return NO_TASKS.union(*known.owned.values()).difference(call.revocation_rank)


def answer(
    header: ExtensibleAssignment, worker: WorkerId, decided: LearnerAssignment, epoch: Epoch, owned: PackedTasks
) -> ExtensibleAssignment:
    """The leader's word to one worker. One whose metadata nobody could read gets nothing.

    :param owned: what the worker has said that it owns
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
    """The record, with what is learned."""
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
    """What members have joined for: they are ready, or can't be, or want to leave; empty: for something else."""
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


def _how_far(state: ExtensibleState, *, said_since: Tasks) -> dict[TaskId, float]:
    """What a worker learns. It says itself what it is ready for.

    :param said_since: the same in the status topic. By that owners go when they stop something, so whatever one has
        stopped for this worker is known here, though the worker had joined before it was ready.
    """
    learns = state.how_far()
    return {**learns, **dict.fromkeys(state.ready.tasks() | (said_since & learns.keys()), READY)}


def _target(decided: LearnerAssignment, worker: WorkerId, owned: PackedTasks) -> PackedTasks:
    """Of most workers what they have said that they own."""
    changes = decided.assigned.get(worker) or decided.revoked.get(worker)
    target = decided.target.get(worker, NO_TASKS)
    return owned if not changes and len(owned) == len(target) else PackedTasks.of(target)


def _packed(shares: Mapping[WorkerId, Tasks], worker: WorkerId) -> PackedTasks:
    return PackedTasks.of(shares.get(worker, NO_TASKS))
