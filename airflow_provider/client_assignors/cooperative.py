"""The cooperative assignor: what members have they keep, and only what has to move moves.

It is KIP-415's assignment (:mod:`airflow_provider.assignors.cooperative`) for a group that a coordinator moves towards
a target. What is the same: planners and tasks are balanced apart, lost tasks wait for their worker, and a policy of
steps bounds what is taken from workers. What is not:

- **The target is whole.** What is taken from one member is another's in the same target; that nobody runs it twice on
  the way is the coordinator's matter. So there is no second round, and no pause that grows with successive ones.
- **What a member has is what the last target gave it**, not what it runs: some of that may still be on its way. An
  assignment that came in between would otherwise turn moves back that are half done.
- **Lost is what a departed member had by that target**, or what has been kept for it since (``delayed``).
- **A delay ends when somebody says so**: the member that computed is told when it has to ask for the next assignment.
  Nobody needs to agree on the time: a delay that somebody has called over is over, whatever the clock of who computes
  says.
- **Everybody keeps its name.** A member id is a worker's own, and a static member has its instance id. A worker that is
  back gets its own at once, whether it is the first or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider.assignors.balance import NO_LIMIT
from airflow_provider.assignors.cooperative import Settled, settle
from airflow_provider.assignors.model import Absence, Memory, Round
from airflow_provider.assignors.policy import Deferred, Incremental, Policy
from airflow_provider.assignors.replanned import still_planned
from airflow_provider.assignors.shares import Shares, merged, minus, plus
from airflow_provider.client_assignors.client_assignor import (
    Assignment,
    Group,
    GroupMember,
    Metadata,
    Reason,
    WorkerFacts,
)
from airflow_provider.client_assignors.facts import COMPATIBLE, SESSIONED, decode_facts, encode_facts
from airflow_provider.client_assignors.remembered import Remembered, decode_remembered, encode_remembered
from airflow_provider.declarative.model import NO_TARGET, MemberTarget
from airflow_provider.protocol.model import NO_TASKS, GenerationId, MemberId, Tasks, WorkerId

_ONE: Final = GenerationId(1)
_DEFERRED: Final = Deferred()


@dataclass(frozen=True, slots=True, kw_only=True)
class CooperativeAssignor:
    """Connect's ``IncrementalCooperativeAssignor``.

    :param policy: when an imbalance is resolved; a delay that the group has takes the place of the policy's
    """

    policy: Policy = _DEFERRED
    name: str = "cooperative"
    minimum_version: int = COMPATIBLE
    maximum_version: int = SESSIONED

    def metadata(self, facts: WorkerFacts) -> Metadata:
        """The time of the delay that is over is part of it: the next one must change it again."""
        reason = Reason.DELAY_OVER if facts.delay_over_ms else Reason.NONE
        return Metadata(reason=reason, version=SESSIONED, metadata=encode_facts(facts, SESSIONED))

    def assign(self, group: Group) -> Assignment:
        """:raises ValueError: for a group without members"""
        if not group.members:
            raise ValueError("an assignment needs at least one member")
        policy = self.policy if group.max_delay_ms is None else replace(self.policy, max_delay_ms=group.max_delay_ms)
        known = _known(group)
        settled = settle(known.round, known.memory, max_delay_ms=policy.max_delay_ms)
        calm = _calm(policy, settled, known)
        relieved = settled.relieve(group.revocation_rank, calm.allowance)
        taken = merged((*relieved, settled.drains.waits))
        given = merged(settled.place(plus(settled.free, NO_TASKS.union(*taken.values()))))
        shares = {
            name: plus(minus(kept, taken.get(name, NO_TASKS)), given.get(name, NO_TASKS))
            for name, kept in settled.kept.items()
        }
        return _written_down(group, known, settled, calm, shares)

    def on_assignment(self, assignment: MemberTarget) -> int | None:
        return decode_remembered(assignment.metadata).asks_at_ms or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A group in the words of a round: workers have names, which they keep when they come back.

    :param members: by name
    :param departed: by name; who is back is among the members, too
    :param next_moves_at_ms: wall clock before which nothing is taken to balance
    """

    round: Round
    memory: Memory
    members: Mapping[WorkerId, MemberId]
    departed: Mapping[WorkerId, MemberId]
    next_moves_at_ms: int


def _known(group: Group) -> _Known:
    facts = {member: decode_facts(said.metadata, said.version) for member, said in group.members.items()}
    before = {member: decode_remembered(said.target.metadata) for member, said in group.members.items()}
    kept = {member: decode_remembered(said.target.metadata) for member, said in group.departed.items()}
    names = _names(group.members)
    names_then = {
        member: WorkerId(kept[member].instance_id or said.instance_id or member)
        for member, said in group.departed.items()
    }
    called_over_ms = max(said.delay_over_ms for said in facts.values())

    def ends_ms(until_ms: int) -> int:
        return min(until_ms, group.now_ms) if until_ms <= called_over_ms else until_ms

    owned = {names[member]: said.target.tasks for member, said in group.members.items()}
    assigned = dict(owned)
    for member, was in group.departed.items():
        assigned[names_then[member]] = plus(assigned.get(names_then[member], NO_TASKS), was.target.tasks)
    waiting = {names_then[member]: said for member, said in kept.items() if said.until_ms}
    next_moves_at_ms = max(said.next_moves_at_ms for said in (*before.values(), *kept.values()))
    unknown_ends_ms = [ends_ms(said.until_ms) for said in waiting.values() if not said.awaited]
    return _Known(
        round=Round(
            now_ms=group.now_ms,
            generation=_ONE,
            last_completed=_ONE,
            configured=group.configured,
            owned=owned,
            revocation_rank=group.revocation_rank,
            named=frozenset(owned),
            absent=_absences(group.departed, names_then),
            draining=frozenset(names[member] for member, said in facts.items() if said.leaving is not None),
            stays=frozenset(group.revocation_rank) if not next_moves_at_ms and _has_less_to_do(group) else NO_TASKS,
            costs=group.costs,
        ),
        memory=Memory(
            generation=_ONE,
            assignment=assigned,
            members=frozenset(owned) | (frozenset(names_then.values()) - waiting.keys()),
            deadline_ms=max(unknown_ends_ms, default=0),
            awaited={name: ends_ms(said.until_ms) for name, said in waiting.items() if said.awaited},
            former=merged(
                ({named[member]: said.former} if said.former else {})
                for named, all_said in ((names, before), (names_then, kept))
                for member, said in all_said.items()
            ),
        ),
        members={name: member for member, name in names.items()},
        departed={name: member for member, name in names_then.items()},
        next_moves_at_ms=next_moves_at_ms,
    )


def _has_less_to_do(group: Group) -> bool:
    """Whether nothing has happened but that work is gone, mostly as it has come to its end. Then free slots are filled
    with what waits, as in a classic group, and nothing that runs is stopped: a batch task would lose what it has done.
    """
    if group.departed or any(said.target == NO_TARGET for said in group.members.values()):
        return False
    return group.configured < NO_TASKS.union(*(said.target.tasks for said in group.members.values()))


def _names(members: Mapping[MemberId, GroupMember]) -> dict[MemberId, WorkerId]:
    """Static members are known by their instance ids; if one is called like another's member id, nobody is."""
    names = {member: WorkerId(said.instance_id or member) for member, said in members.items()}
    return names if len(set(names.values())) == len(names) else {member: WorkerId(member) for member in members}


def _absences(
    departed: Mapping[MemberId, GroupMember], names: Mapping[MemberId, WorkerId]
) -> Mapping[WorkerId, Absence]:
    said = {names[member]: decode_facts(gone.metadata, gone.version) for member, gone in departed.items()}
    return {name: Absence(left=facts.leaving, returns_ms=facts.returns_ms) for name, facts in said.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calm:
    """How much may be taken from workers to balance, and when the next assignment is due.

    :param asks_at_ms: wall clock; 0: nothing waits
    """

    allowance: int = 0
    next_moves_at_ms: int = 0
    asks_at_ms: int = 0


def _calm(policy: Policy, settled: Settled, known: _Known) -> _Calm:
    now_ms, delay_ms = known.round.now_ms, settled.lost_work.delay_ms
    if not isinstance(policy, Incremental):
        return _Calm(asks_at_ms=now_ms + delay_ms) if delay_ms else _Calm(allowance=NO_LIMIT)
    latest_ms = now_ms + policy.move_interval_ms
    next_ms = min(known.next_moves_at_ms, latest_ms) if known.next_moves_at_ms > now_ms else 0
    if delay_ms:
        return _Calm(next_moves_at_ms=next_ms, asks_at_ms=now_ms + delay_ms)
    if next_ms or not settled.stops:
        return _Calm(next_moves_at_ms=next_ms, asks_at_ms=next_ms if settled.stops else 0)
    more = settled.stops > policy.max_moves
    return _Calm(allowance=policy.max_moves, next_moves_at_ms=latest_ms, asks_at_ms=latest_ms if more else 0)


def _written_down(group: Group, known: _Known, settled: Settled, calm: _Calm, shares: Shares) -> Assignment:
    version = max(COMPATIBLE, min(said.version for said in group.members.values()))
    former = still_planned(known.round, known.memory, settled.difference.removed)
    asks = min(group.members) if group.computing is None else group.computing
    lost = settled.lost_work

    def target(member: MemberId, name: WorkerId) -> MemberTarget:
        remembered = Remembered(former=former.get(name, NO_TASKS))
        if member == asks:
            remembered = replace(remembered, asks_at_ms=calm.asks_at_ms, next_moves_at_ms=calm.next_moves_at_ms)
        return MemberTarget(tasks=shares[name], metadata=encode_remembered(remembered, version))

    def kept(member: MemberId, name: WorkerId, tasks: Tasks) -> MemberTarget:
        remembered = Remembered(
            until_ms=lost.awaited.get(name, lost.deadline_ms),
            awaited=name in lost.awaited,
            instance_id="" if str(name) == member else name,
            former=former.get(name, NO_TASKS),
        )
        return MemberTarget(tasks=tasks, metadata=encode_remembered(remembered, version))

    return Assignment(
        members={member: target(member, name) for name, member in known.members.items()},
        delayed={
            known.departed[name]: kept(known.departed[name], name, tasks)
            for name, tasks in lost.waiting.items()
            if tasks
        },
    )
