"""The incremental cooperative assignment of KIP-415: one round, as a function of what is owned and remembered.

Source: Kafka Connect's ``IncrementalCooperativeAssignor`` (4.x). Its rules, in the order of a round:

1. The leader has read the jobs topic as far as any member. This is ensured before a round starts, not here.
2. If the last round that was computed is not the last one that was completed, the remembered assignment is not trusted.
3. If something that the last round revoked is still owned, what is owned now counts as what was assigned.
4. Deleted is what was assigned and is not configured any more. Lost is what was assigned, is still configured, and is
   owned by nobody. Created is what is configured and neither assigned nor owned. What two members own, both stop.
5. Lost work waits for its worker, at most for the maximum delay (module ``lost``).
6. While nothing waits, a worker that runs more than its share gives up the surplus (module ``balance``). If the round
   before revoked too, it does so only after a delay, which grows with each such round (module ``pace``). Under the
   policy ``Incremental``, which Connect does not have, a round stops a limited number of tasks, and the delay is a
   fixed interval.
7. Created work, and lost work that has waited long enough, goes to the workers that have the least (``dealing``).
8. A leader without memory counts nothing as lost, so it delays nothing.

In each round, the numbers of tasks and of planners per worker and the delays are the same as Connect's, but for these
intended improvements:

``only-lost-work-waits``
    A delay for a missing worker starts only if something is lost. Connect also starts one if a worker that had nothing
    leaves after a round that revoked, which keeps the group from balancing for minutes.
``memory-is-a-value``
    A leader's memory can be handed to its successor. So a running delay continues, and the loss of the leader is
    treated like that of any worker. Connect's new leader starts without memory.
``only-the-unknown-is-waited-for``
    A worker that returns under its name gets its own tasks in that round, and the delay ends once no worker is missing
    that is waited for. If a worker has said that it will not return, its tasks go to others in the round that misses
    it. If it has said by when it will return, they wait until then, at most for the maximum delay. Connect's members
    have no names and can't say such things. Workers of which nothing is known are treated as in Connect.
``shares-by-slots``
    A worker's share is in proportion to its slots (module ``portions``). Connect has no slots. Where they are equal, or
    not known, the shares are Connect's.
``jobs-are-spread``
    Among workers with equally many tasks, the one with the fewest of the same job gets the next one. What is cheapest
    to stop is revoked first, then what is most clustered. Connect looks at numbers only (KAFKA-17049).
``own-tasks-first``
    A worker that returns gets its own tasks back, as far as they are within its share. Connect deals out the lost work
    in any order among the workers that have joined.
``planned-anew-stays-put``
    While a job is planned again, its tasks are not configured. After that they go to the workers that had them, as far
    as they are within the shares. In Connect a connector keeps its old tasks until it has new ones.
``only-what-runs-is-revoked``
    Lost work that has waited long enough starts in that round: what is above the shares of the workers that have joined
    goes to others. Connect gives them all of it first. Then it revokes what is above their shares, whether it runs or
    not, and nobody runs it until the next round.
``who-drains-gets-nothing``
    A draining worker gets nothing, and gives up tasks that have not started there (module ``draining``). Connect's
    workers don't drain.
``a-second-try-is-elsewhere``
    A task that has failed may be tried next by a certain worker, whatever the shares are (module ``elsewhere``), and is
    not moved from there for balance. Connect restarts a failed task where it is.
``what-waits-moves-alone``
    A round that the leader requested only because a worker has a free slot stops no running task. Connect has no slots.
``work-is-shared-out``
    Where batch tasks are known to differ in cost, they are shared out by cost, and running ones are not stopped for
    balance (module ``by_cost``). Connect's tasks are all alike.
``removed-is-stopped``
    Whatever is owned and not configured is revoked. After a leader change or a failed sync, Connect has forgotten it,
    and leaves it running until yet another rebalance.
``same-input-same-result``
    Ties are resolved by load and name, never by the order of a hash table.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.assignment.balancing.pools import Kinds, Pools, SharedWork
from airflow_provider.assignment.draining import Draining, draining
from airflow_provider.assignment.lost import LostWork, judge
from airflow_provider.assignment.model import GroupAssignment, Memory, Round
from airflow_provider.assignment.moving.failed_tasks import Elsewhere, elsewhere
from airflow_provider.assignment.moving.moves import Difference, Shuffle, write_down
from airflow_provider.assignment.moving.pace import pace
from airflow_provider.assignment.policy import Policy
from airflow_provider.assignment.replanned import planned_again
from airflow_provider.assignment.shares import NO_SHARES, Shares, all_of, merged, minus, plus
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks


def assign(round: Round, memory: Memory, *, policy: Policy) -> GroupAssignment:  # noqa: A002  # KIP-415's term
    """Compute one round.

    :param memory: what the leader's last round returned, or an empty one for a leader that knows nothing
    :raises ValueError: for a round without members
    """
    if not round.owned:
        raise ValueError("a round of assignment needs at least one member")
    settled = settle(round, memory, compare(round, memory), max_delay_ms=policy.max_delay_ms)
    may_stop = pace(policy, settled.lost_work, memory, wants_to_revoke=True, now_ms=round.now_ms).allowance
    pools = settled.pools(round, memory, may_stop)
    decided = pace(policy, settled.lost_work, memory, wants_to_revoke=pools.stops > 0, now_ms=round.now_ms)
    relieved = pools.relieve(round.revocation_rank, decided.allowance)
    taken = merged((*relieved, settled.drains.waits, settled.elsewhere.taken))
    given = merged((*pools.returned, *pools.place(settled.free), settled.elsewhere.at_once))
    shuffle = Shuffle(kept=settled.kept, taken=taken, given=given, over=pools.over(settled.drains))
    return write_down(round, memory, settled.difference, settled.lost_work, decided, shuffle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """Who keeps what, before anything is balanced.

    :param difference: without what goes elsewhere
    :param elsewhere: what goes to a certain worker, because it has failed where it was
    :param drains: workers that finish what they run, and start nothing
    :param kept: what each member keeps of what it owned
    :param own: what members get back, within their shares
    :param free: what any worker may start
    """

    difference: Difference
    elsewhere: Elsewhere
    drains: Draining
    lost_work: LostWork
    kept: Shares
    own: Shares
    free: Tasks

    @property
    def left(self) -> Shares:
        """What each member keeps without what goes elsewhere."""
        return self.elsewhere.left_of(self.kept)

    def pools(self, round: Round, memory: Memory, most_stops: int) -> Pools:  # noqa: A002
        """What may change of each kind of work; see :class:`.pools.SharedWork`."""
        work = SharedWork(round, Kinds.of(round), self.drains, self.left, self.own, self.free, self.elsewhere.places)
        return work.pools(memory, most_stops)


def settle(
    round: Round,  # noqa: A002
    memory: Memory,
    difference: Difference,
    *,
    max_delay_ms: int,
    warm: Shares = NO_SHARES,
) -> Settled:
    """Decide everything that does not depend on shares.

    :param difference: that of :func:`compare`, without ``warm``
    :param warm: what members start whatever their shares are
    """
    kept = {worker: minus(round.owned[worker], difference.stopped) for worker in sorted(round.owned)}
    goes = elsewhere(round, kept, (*difference.created, *difference.lost) if round.tried.places else ())
    difference = difference.without(goes.tasks)  # nothing waits for the workers that had these
    held = {worker: plus(tasks, warm.get(worker, NO_TASKS)) for worker, tasks in kept.items()} if warm else kept
    lost_work = judge(difference.lost, held, memory, round, max_delay_ms=max_delay_ms)
    again = round.of_staying(planned_again(difference.created, round, memory))
    return Settled(
        difference=difference,
        elsewhere=goes,
        drains=draining(round, kept),
        lost_work=lost_work,
        kept=kept,
        own=merged((lost_work.own, again)),
        free=plus(minus(difference.created, all_of(again)), lost_work.as_new),
    )


def compare(round: Round, memory: Memory) -> Difference:  # noqa: A002
    """How what is owned differs from what was assigned and from what is configured (rules 2 to 4)."""
    unowned = round.configured.difference(*round.owned.values())
    removed, duplicated = _superfluous(round, covered=len(round.configured) - len(unowned))
    previous = _trusted_assignment(round, memory) if unowned else {}
    lost = {task: worker for worker, tasks in previous.items() for task in tasks & unowned}
    return Difference(removed=removed, duplicated=duplicated, created=minus(unowned, frozenset(lost)), lost=lost)


def _superfluous(round: Round, covered: int) -> tuple[Tasks, Tasks]:  # noqa: A002
    """What is owned but not configured, and what is owned twice.

    :param covered: how many of the configured tasks are owned; if no more than that are owned, there is neither
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
    """What the last round assigned, as far as it is certain that the members received it (rules 2 and 3)."""
    if not all(map(memory.revoked.isdisjoint, round.owned.values())):
        return round.owned
    return memory.assignment if memory.generation == round.last_completed else {}
