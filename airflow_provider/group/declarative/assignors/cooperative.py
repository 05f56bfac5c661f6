"""The cooperative assignor: members keep their tasks, and only tasks that have to move are moved.

It is KIP-415's assignment (:mod:`airflow_provider.assignment.cooperative_assignor`) for a group that a coordinator
moves towards a target. As there, planners and tasks are balanced separately, lost tasks wait for their worker, and a
policy of steps limits how many tasks are taken from workers. Differences:

- **The target is complete.** A task that is taken from one member is given to another in the same target; the
  coordinator makes sure that it does not run twice on the way. So there is no second round, and no growing delay
  between rounds that revoke tasks.
- **A member has what the last target gave it**, not what it runs: some tasks may still be on their way. Otherwise an
  assignment in between would turn back moves that are half done.
- **Lost tasks are those that a departed member had in that target**, and those that were delayed for it since.
- **A delay ends when a member says so.** The member that computed is told when to ask for the next assignment. The
  members' clocks need not agree: a delay that one member has declared over is over.
- **Every worker keeps its name.** A member id belongs to one worker, and a static member has its instance id. A worker
  that returns gets its own tasks at once, even if another one has returned before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider.assignment.balancing.balance import NO_LIMIT
from airflow_provider.assignment.cooperative_assignor import Settled, compare, settle
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.policy import Deferred, Incremental, Policy
from airflow_provider.assignment.replanned import still_planned
from airflow_provider.assignment.shares import Shares, merged, minus, plus
from airflow_provider.group.declarative.assignors.client_assignor import (
    Assignment,
    Group,
    GroupMember,
    Metadata,
    Reason,
    WorkerFacts,
)
from airflow_provider.group.declarative.assignors.facts import (
    COMPATIBLE,
    SESSIONED,
    decode_facts,
    encode_facts,
    known_absences,
)
from airflow_provider.group.declarative.assignors.remembered import Remembered, decode_remembered, encode_remembered
from airflow_provider.group.declarative.protocol.model import NO_TARGET, MemberTarget
from airflow_provider.values.model import NO_TASKS, GenerationId, MemberId, Tasks, WorkerId

_ONE: Final = GenerationId(1)
_DEFERRED: Final = Deferred()


@dataclass(frozen=True, slots=True, kw_only=True)
class CooperativeAssignor:
    """Connect's ``IncrementalCooperativeAssignor``.

    :param policy: when an imbalance is resolved. A group's own delay takes precedence over the policy's
    """

    policy: Policy = _DEFERRED
    name: str = "cooperative"
    minimum_version: int = COMPATIBLE
    maximum_version: int = SESSIONED

    def metadata(self, facts: WorkerFacts) -> Metadata:
        """What a member says. It includes the time of the delay that is over, so that the end of the next delay changes
        it again.
        """
        reason = Reason.DELAY_OVER if facts.delay_over_ms else Reason.NONE
        return Metadata(reason=reason, version=SESSIONED, metadata=encode_facts(facts, SESSIONED))

    def assign(self, group: Group) -> Assignment:
        """Compute the target of each member.

        :raises ValueError: the group has no members
        """
        if not group.members:
            raise ValueError("an assignment needs at least one member")
        policy = self.policy if group.max_delay_ms is None else replace(self.policy, max_delay_ms=group.max_delay_ms)
        known = _known(group)
        difference = compare(known.round, known.memory)
        settled = settle(known.round, known.memory, difference, max_delay_ms=policy.max_delay_ms)
        may_stop = _pace(policy, settled, NO_LIMIT, known).allowance
        pools = settled.pools(known.round, known.memory, may_stop)
        pace = _pace(policy, settled, pools.stops, known)
        relieved, elsewhere = pools.relieve(group.revocation_rank, pace.allowance), settled.elsewhere
        taken = merged((*relieved, settled.drains.waits, elsewhere.taken))
        free = minus(plus(settled.free, NO_TASKS.union(*taken.values())), elsewhere.tasks)
        given = merged((*pools.returned, *pools.place(free), elsewhere.places))
        shares = {
            name: plus(minus(kept, taken.get(name, NO_TASKS)), given.get(name, NO_TASKS))
            for name, kept in settled.kept.items()
        }
        return _assignment(group, known, settled, pace, shares)

    def on_assignment(self, assignment: MemberTarget) -> int | None:
        """When the member has to ask for the next assignment."""
        return decode_remembered(assignment.metadata).asks_at_ms or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A group as a round of the classic protocol. Workers have names, which they keep when they return.

    :param members: the members, by name
    :param departed: the former members, by name. A worker that has returned is among the members, too
    :param next_moves_at_ms: until then, no task is taken from a worker for balance (wall clock)
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
            absent={names_then[member]: absence for member, absence in known_absences(group).items()},
            draining=frozenset(names[member] for member, said in facts.items() if said.leaving is not None)
            | group.held_back,
            stays=frozenset(group.revocation_rank) if not next_moves_at_ms and _places_what_waits(group) else NO_TASKS,
            costs=group.costs.at({names[member]: said.slots for member, said in facts.items() if said.slots > 0}),
            tried=group.tried,
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


def _places_what_waits(group: Group) -> bool:
    """Whether the only change is that tasks are gone, mostly because they have ended, or that failed ones go elsewhere.
    Then waiting tasks fill the free slots, as in a classic group, and no running task is stopped: a batch task would
    lose what it has done.
    """
    if group.departed or any(said.target == NO_TARGET for said in group.members.values()):
        return False
    assigned = NO_TASKS.union(*(said.target.tasks for said in group.members.values()))
    return group.configured < assigned or (group.configured == assigned and bool(group.tried.places))


def _names(members: Mapping[MemberId, GroupMember]) -> dict[MemberId, WorkerId]:
    """The names of members: instance ids of static members, otherwise member ids. If ambiguous, all member ids."""
    names = {member: WorkerId(said.instance_id or member) for member, said in members.items()}
    return names if len(set(names.values())) == len(names) else {member: WorkerId(member) for member in members}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """How many tasks may be taken from workers for balance, and when the next assignment is due. Times are wall clock.

    :param next_moves_at_ms: until then, no further task is taken; 0: no such time
    :param asks_at_ms: when the next assignment is due; 0: not before a change
    """

    allowance: int = 0
    next_moves_at_ms: int = 0
    asks_at_ms: int = 0


def _pace(policy: Policy, settled: Settled, stops: int, known: _Known) -> _Pace:
    now_ms, delay_ms = known.round.now_ms, settled.lost_work.delay_ms
    if not isinstance(policy, Incremental):
        return _Pace(asks_at_ms=now_ms + delay_ms) if delay_ms else _Pace(allowance=NO_LIMIT)
    latest_ms = now_ms + policy.move_interval_ms
    next_ms = min(known.next_moves_at_ms, latest_ms) if known.next_moves_at_ms > now_ms else 0
    if delay_ms:
        return _Pace(next_moves_at_ms=next_ms, asks_at_ms=now_ms + delay_ms)
    if next_ms or not stops:
        return _Pace(next_moves_at_ms=next_ms, asks_at_ms=next_ms if stops else 0)
    more = stops > policy.max_moves
    return _Pace(allowance=policy.max_moves, next_moves_at_ms=latest_ms, asks_at_ms=latest_ms if more else 0)


def _assignment(group: Group, known: _Known, settled: Settled, pace: _Pace, shares: Shares) -> Assignment:
    version = max(COMPATIBLE, min(said.version for said in group.members.values()))
    former = still_planned(known.round, known.memory, settled.difference.removed)
    lost = settled.lost_work

    def target(member: MemberId, name: WorkerId) -> MemberTarget:
        remembered = Remembered(former=former.get(name, NO_TASKS))
        if member == group.computing:
            remembered = replace(remembered, asks_at_ms=pace.asks_at_ms, next_moves_at_ms=pace.next_moves_at_ms)
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
