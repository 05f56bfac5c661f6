"""The incremental cooperative assignment of KIP-415: one round, as a function of what is owned and remembered.

Source: Kafka Connect's ``IncrementalCooperativeAssignor`` (4.x). Its rules, in the order in which a round goes:

1. The leader has read the jobs topic as far as any member. This is seen to before a round starts, not here.
2. When the last round computed is not the last round completed, what is remembered as assigned is not trusted.
3. When something revoked in the last round is still owned, what is owned now is taken as what was assigned.
4. Deleted is what was assigned and is not configured any more; lost is what was assigned, still is configured, and
   nobody owns; created is configured and neither assigned nor owned. What two members own both stop.
5. Lost work waits for its worker, at most the maximum delay (module ``lost``).
6. While nothing waits, a worker that runs more than its share gives up the surplus (module ``balance``). If the round
   before did so too, it doesn't yet, and a delay starts that grows with each such round (module ``pace``). Under the
   policy ``Incremental``, which Connect does not have, a round stops at most so many tasks, and the delay is a fixed
   interval.
7. What is created, and lost work whose time is over, goes to the workers that have the least (module ``spread``).
8. A leader without memory takes nothing for lost, so it delays nothing.

Numbers of tasks and of planners per worker, and delays, come out in each round as Connect's do. Where this is better,
on purpose:

``only-lost-work-waits``
    A delay for a missing worker starts only when something is lost. Connect also starts one when a worker that had
    nothing leaves after a round that revoked, and keeps the group from balancing for minutes.
``memory-is-a-value``
    A leader's memory can be handed to its successor, so a running delay goes on and the loss of the leader is treated
    as that of any worker. Connect's new leader starts from nothing.
``only-the-unknown-is-waited-for``
    A worker that is back under its name gets its own in the round of its return, and when nobody who is waited for is
    missing any more, the delay ends. What a worker had that has said that it will not be back goes to others in the
    round that misses it; one that has said by when it will be back is waited for until then, at most for the maximum
    delay. Connect's members have neither names nor words. Of whom nothing is known, all is as in Connect.
``jobs-are-spread``
    Among workers with equally many tasks the one with the fewest of the same job gets the next one; revoked is what is
    cheapest to stop, then what is most clustered. Connect looks at numbers only (KAFKA-17049).
``own-tasks-first``
    A worker that comes back gets its own tasks back, as far as they are within its share. Connect deals out the lost
    work in any order among those who came.
``planned-anew-stays-put``
    A task that was not configured only while its job was planned again goes to the worker that had it, as far as it is
    within its share. In Connect a connector keeps its old tasks until it has new ones.
``only-what-runs-is-revoked``
    Lost work whose time is over starts in that round: what is above the share of those who came goes to others. In
    Connect they get all of it first; then what is above their shares is revoked, run by somebody or not, and nobody
    runs it until the next round.
``who-drains-gets-nothing``
    A worker that starts nothing more gets nothing, and gives up what waits there (module ``draining``). Connect's
    workers don't drain.
``what-waits-moves-alone``
    A round that its leader has asked for only because a worker has a slot free stops nothing that runs. Connect knows
    no slots.
``work-is-shared-out``
    Where it is known that batch tasks differ in what they cost, they are shared out by that, and nothing that runs of
    them is stopped for balance (module ``by_cost``). Connect's tasks are all alike.
``removed-is-stopped``
    Whatever is owned and not configured is revoked. Connect leaves it running when its memory of it is gone, after a
    leader change or a failed sync, until yet another rebalance.
``same-input-same-result``
    Ties go by load and name, never by the order of a hash table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_provider.assignors.balance import NOTHING_FIXED
from airflow_provider.assignors.draining import Draining, draining
from airflow_provider.assignors.lost import LostWork, judge
from airflow_provider.assignors.model import GroupAssignment, Memory, Round
from airflow_provider.assignors.moves import Difference, Shuffle, write_down
from airflow_provider.assignors.pace import pace
from airflow_provider.assignors.policy import Policy
from airflow_provider.assignors.pools import Kinds, Pools, pools_of
from airflow_provider.assignors.replanned import planned_again
from airflow_provider.assignors.shares import Shares, merged, minus, plus
from airflow_provider.protocol.model import NO_TASKS, TaskId, Tasks, WorkerId


def assign(round: Round, memory: Memory, *, policy: Policy) -> GroupAssignment:  # noqa: A002  # it is KIP-415's word
    """Compute one round.

    :param memory: what the leader's last round returned, or an empty one for a leader that knows nothing
    :raises ValueError: for a round without members
    """
    if not round.owned:
        raise ValueError("a round of assignment needs at least one member")
    settled = settle(round, memory, max_delay_ms=policy.max_delay_ms)
    decided = pace(policy, settled.lost_work, memory, wants_to_revoke=settled.stops > 0, now_ms=round.now_ms)
    taken = merged((*settled.relieve(round.revocation_rank, decided.allowance), settled.drains.waits))
    given = merged(settled.place(settled.free))
    shuffle = Shuffle(kept=settled.kept, taken=taken, given=given, over=settled.pools.over(settled.drains))
    return write_down(round, memory, settled.difference, settled.lost_work, decided, shuffle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Who has what, before anything is evened out.

    :param kept: every member, and what it goes on with of what it owned
    :param pools: what each kind of work may change
    :param free: what anybody may start
    """

    difference: Difference
    lost_work: LostWork
    drains: Draining
    kept: Shares
    pools: Pools
    free: Tasks

    @property
    def stops(self) -> int:
        """How many running tasks would have to stop for nobody to have more than its share."""
        return self.pools.stops

    def relieve(self, rank: Mapping[TaskId, int], most_stops: int) -> tuple[Shares, ...]:
        """Take from each worker what is above its share; see :meth:`Pools.relieve`."""
        return tuple(self.pools.relieve(rank, most_stops))

    def place(self, tasks: Tasks) -> tuple[Mapping[WorkerId, Iterable[TaskId]], ...]:
        """Give tasks to those who have the least, and to everybody what is its own; see :meth:`Pools.place`."""
        return (*self.pools.returned, *self.pools.place(tasks))


def settle(round: Round, memory: Memory, *, max_delay_ms: int) -> Settled:  # noqa: A002
    """Settle a round as far as no shares are needed."""
    difference = compare(round, memory)
    stopped = difference.stopped
    kept = {worker: minus(round.owned[worker], stopped) for worker in sorted(round.owned)}
    lost_work = judge(difference.lost, kept, memory, round, max_delay_ms=max_delay_ms)
    again = planned_again(difference.created, round, memory)
    own = merged((lost_work.own, again))
    drains = draining(round, kept)
    kinds = Kinds.of(round)
    stays = kinds.stays(round)
    movable = {worker: minus(tasks, stays) for worker, tasks in kept.items()} if stays else kept
    fixed = {worker: len(kept[worker]) - len(tasks) for worker, tasks in movable.items()} if stays else NOTHING_FIXED
    own_of_drained = NO_TASKS.union(*(own.get(worker, NO_TASKS) for worker in drains.runs))
    created = minus(difference.created, NO_TASKS.union(*again.values()))
    free = plus(plus(created, lost_work.as_new), own_of_drained)
    return Settled(
        difference=difference,
        lost_work=lost_work,
        drains=drains,
        kept=kept,
        pools=pools_of(round, memory, kinds, drains, movable, own, free, fixed),
        free=free,
    )


def compare(round: Round, memory: Memory) -> Difference:  # noqa: A002
    """How what is owned differs from what was assigned and from what is configured (rules 2 to 4)."""
    unowned = round.configured.difference(*round.owned.values())
    removed, duplicated = _superfluous(round, covered=len(round.configured) - len(unowned))
    previous = _trusted_assignment(round, memory) if unowned else {}
    lost = {task: worker for worker, tasks in previous.items() for task in tasks & unowned}
    return Difference(removed=removed, duplicated=duplicated, created=minus(unowned, frozenset(lost)), lost=lost)


def _superfluous(round: Round, covered: int) -> tuple[Tasks, Tasks]:  # noqa: A002
    """What is owned and not configured, and what is owned twice.

    :param covered: how much of what is configured is owned. If no more than that is owned, there is neither
    """
    if sum(map(len, round.owned.values())) == covered:
        return NO_TASKS, NO_TASKS
    seen: set[TaskId] = set()
    twice: set[TaskId] = set()
    for tasks in round.owned.values():
        twice |= seen & tasks
        seen |= tasks
    return frozenset(seen - round.configured), frozenset(twice)


def _trusted_assignment(round: Round, memory: Memory) -> Shares:  # noqa: A002
    """What the last round assigned, as far as it can be known to have reached the members (rules 2 and 3)."""
    if not all(map(memory.revoked.isdisjoint, round.owned.values())):
        return round.owned
    return memory.assignment if memory.generation == round.last_completed else {}
