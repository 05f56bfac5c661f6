"""The assignment with learner tasks: a task that has state is warmed up on its new worker before it moves.

Source: the proposal of learner tasks for Kafka Streams, from which came KIP-441 (warm-up replicas) and KIP-1071
(warm-up tasks). This extends KIP-415: stateless tasks move as in module ``cooperative``, and without a stateful job
every round has the same result as there. The differences:

1. **Stateful tasks are a kind of their own.** They are spread over the workers that stay, in proportion to slots. The
   stateless ones are then spread so that both kinds together are, too. A task that has not started has nothing to lose,
   so it moves as a stateless one, and rather than one that has to be learned. If slots are equal, it does not matter to
   the balance which workers have one stateful task more than others, so it is those with the fewest stateless ones. In
   a round for a free slot, such a task moves if it has not started.
2. **A move begins with a lesson.** What is above a worker's share is not stopped. Its future worker learns it, while
   its owner keeps it running (module ``lessons``). Shares count each lesson as if the move was done, so one that is
   under way is no reason to begin another.
3. **A learner that is ready gets its task as soon as nobody has it** (module ``under_way``): the owner has stopped it
   before it joined, or is gone. An owner that still has it stops it now, and the learner gets it in the next round, as
   in KIP-415. Owners have a rule for when they stop what others learn (``LearnedRule``). Any rule has a correct result
   here, since a leader only looks at what is owned and who is ready.
4. **Ownership and learning are never mixed.** A learner owns nothing, so nothing that happens to it stops anything.

The rules beyond ``cooperative``, by name:

``warm-replaces-lost``
    A lost owner whose learner is ready is replaced in the round that misses it, without the delay.
``half-warm-first``
    Lost work that has waited long enough goes to the worker that learns it, ready or not.
``a-learner-costs-nothing``
    When a learner dies or its worker leaves, nothing stops and nothing waits. If the owner has stopped the task for the
    learner, it gets it back.
``nobody-starts-over``
    When one more worker joins, lessons continue. A lesson ends without a move only if the owner has room for the task
    and the learner has not, if it fails or takes too long (``Limits.longest_ms``), or if there is nothing to learn.
``who-fails-gives-up-its-place``
    A task that a learner could not make ready stays where it is and runs; if its worker leaves, it moves without a
    warm-up. No worker tries it again until a worker joins or leaves, or its job is submitted again; one that learns it
    at the same time goes on. If ``MOST_GIVEN_UP`` tasks of a job have failed, none of its tasks are tried.
``who-leaves-gets-nothing``
    A worker that leaves soon gets no tasks that it did not have. It finishes the batch tasks that it runs. Its stateful
    streams are learned by the workers that stay, the others move as in KIP-415, and when it has nothing it may leave.
    If all workers leave soon, nobody can learn: each keeps what it has, and new work waits for others to join.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

from airflow_provider.assignment.balancing.balance import limited
from airflow_provider.assignment.balancing.pools import Kinds, SharedWork
from airflow_provider.assignment.learners.lessons import begin
from airflow_provider.assignment.learners.model import (
    DEFAULT_LIMITS,
    LearnerAssignment,
    LearnerMemory,
    LearnerRound,
    Limits,
)
from airflow_provider.assignment.learners.settled import Settled, settle
from airflow_provider.assignment.learners.stateful import Stateful, spread
from airflow_provider.assignment.model import GroupAssignment, Move, MoveReason
from airflow_provider.assignment.moving.moves import Shuffle, Why, explained, write_down
from airflow_provider.assignment.moving.pace import Pace, pace
from airflow_provider.assignment.policy import Incremental, Policy
from airflow_provider.assignment.shares import Numbers, Shares, all_of, grouped, merged, minus, plus
from airflow_provider.values.model import NO_TASKS, TaskId, WorkerId


def assign(
    round: LearnerRound,  # noqa: A002  # KIP-415's term
    memory: LearnerMemory,
    *,
    policy: Policy,
    limits: Limits = DEFAULT_LIMITS,
) -> LearnerAssignment:
    """Compute one round.

    :param memory: what the leader's last round returned, or an empty one for a leader that knows nothing
    :raises ValueError: for a round without members
    """
    if not round.owned:
        raise ValueError("a round of assignment needs at least one member")
    settled = settle(round, memory, policy, limits)
    stateful = spread(round, memory, limits, settled)
    balanced = _balance(round, memory, policy, limits, settled, stateful)
    begun = begin(round, limits, stateful, balanced.stops)
    outcome = write_down(
        round, memory.cooperative, settled.difference, settled.lost_work, balanced.decided, balanced.shuffle
    )
    return _with_learners(round, memory, outcome, settled, stateful, begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Balanced:
    """What starts and stops, and how many running tasks of each worker are to be learned for balance."""

    decided: Pace
    shuffle: Shuffle
    stops: Numbers


def _balance(
    round: LearnerRound,  # noqa: A002
    memory: LearnerMemory,
    policy: Policy,
    limits: Limits,
    settled: Settled,
    stateful: Stateful,
) -> _Balanced:
    """Balance the stateless tasks around the stateful ones. Under a policy of steps, a lesson counts as a move."""
    left = {worker: minus(tasks, stateful.tasks) for worker, tasks in round.of_staying(settled.left).items()}
    if not left:
        decided = pace(policy, settled.lost_work, memory.cooperative, wants_to_revoke=False, now_ms=round.now_ms)
        return _Balanced(decided=decided, shuffle=Shuffle(kept=settled.kept, taken={}, given=settled.at_once), stops={})
    drains = settled.drains.without(frozenset(stateful.further.lessons))
    free = minus(settled.free, stateful.tasks)
    own, places = (
        {worker: minus(tasks, stateful.tasks) for worker, tasks in shares.items()}
        for shares in (settled.own, settled.elsewhere.places)
    )
    even = stateful.excess.even(stateful.stops) if stateful.tasks else {}
    work = SharedWork(round, Kinds.of(round, stateful.tasks), drains, left, own, free, places, even)
    may_stop = pace(policy, settled.lost_work, memory.cooperative, wants_to_revoke=True, now_ms=round.now_ms)
    pools = work.pools(memory.cooperative, may_stop.allowance)
    stops = limited(stateful.stops, max(0, limits.per_group - len(stateful.further.lessons)))
    in_steps = isinstance(policy, Incremental)
    wants = pools.stops > 0 or bool(stateful.idle) or (in_steps and any(stops.values()))
    decided = pace(policy, settled.lost_work, memory.cooperative, wants_to_revoke=wants, now_ms=round.now_ms)
    more = decided.allowance - min(decided.allowance, pools.stops)
    idle = _at_most(stateful.idle, more)
    relieved = pools.relieve(round.revocation_rank, decided.allowance)
    leaving = _stopped_by_leaving(round, settled, stateful)
    taken = merged((*relieved, drains.waits, idle, settled.elsewhere.taken, stateful.further.released, leaving))
    given = merged((settled.at_once, stateful.given, *pools.returned, *pools.place(free)))
    return _Balanced(
        decided=decided,
        shuffle=Shuffle(kept=settled.kept, taken=taken, given=given, over=pools.over(drains)),
        stops=limited(stops, more - sum(map(len, idle.values()))) if in_steps else stops,
    )


def _at_most(shares: Shares, number: int) -> Shares:
    """At most ``number`` of the tasks, in the order of their workers' names."""
    tasks = ((task, worker) for worker, share in sorted(shares.items()) for task in sorted(share))
    return grouped(islice(tasks, number)) if number < sum(map(len, shares.values())) else shares


def _stopped_by_leaving(round: LearnerRound, settled: Settled, stateful: Stateful) -> Shares:  # noqa: A002
    """What workers that leave soon stop now: stateless streams, and what has not started. Batch tasks finish there, and
    the rest is learned first.
    """
    stays = plus(minus(frozenset(stateful.further.holders), round.pending), settled.drains.kept)
    return {
        worker: minus(settled.kept[worker], plus(stateful.running[worker], stays))
        for worker in sorted(round.leaving_soon & settled.kept.keys())
    }


def _with_learners(
    round: LearnerRound,  # noqa: A002
    memory: LearnerMemory,
    outcome: GroupAssignment,
    settled: Settled,
    stateful: Stateful,
    begun: tuple[Move, ...],
) -> LearnerAssignment:
    """Add to a round's starts and stops what it decided about learners."""
    continued, released = stateful.further, stateful.further.released
    stopped = NO_TASKS.union(*released.values())
    lessons = continued.lessons
    learners = {task: lesson.worker for task, lesson in lessons.items()}
    owners = {task: owner for task, owner in continued.holders.items() if task not in stopped}
    for move in begun:
        assert move.source is not None
        assert move.target is not None
        learners.update(dict.fromkeys(move.tasks, move.target))
        owners.update(dict.fromkeys(move.tasks, move.source))
    learning, learned = grouped(learners.items()), grouped(owners.items())
    members = outcome.target
    whys = _whys(round, settled, stateful, outcome)
    cooperative = outcome.memory
    if whys:
        cooperative = replace(cooperative, released=tuple(explained(cooperative.released, whys)))
    # Tasks that have not started are left out: they go to their learner, so the owner need not get them back.
    handing = {worker: minus(tasks, round.pending) for worker, tasks in released.items()}
    return LearnerAssignment(
        assigned=outcome.assigned,
        revoked=outcome.revoked,
        target=outcome.target,
        learning={worker: learning.get(worker, NO_TASKS) for worker in members},
        learned={worker: learned.get(worker, NO_TASKS) for worker in members},
        shutdown=frozenset(
            worker for worker in round.leaving_soon & members.keys() if _is_done(worker, round, outcome)
        ),
        delay_ms=outcome.delay_ms,
        memory=LearnerMemory(
            cooperative=cooperative,
            learned=merged((learned, handing)),
            learned_before=memory.may_have_stopped(round),
            since_ms={
                worker: {task: lessons[task].since_ms if task in lessons else round.now_ms for task in tasks}
                for worker, tasks in learning.items()
            },
            given_up=stateful.given_up,
        ),
        moves=tuple(explained(outcome.moves, whys)) if whys else outcome.moves,
        lessons=begun,
    )


def _is_done(worker: WorkerId, round: LearnerRound, outcome: GroupAssignment) -> bool:  # noqa: A002
    return not round.owned[worker] and not outcome.target[worker]


def _whys(round: LearnerRound, settled: Settled, stateful: Stateful, outcome: GroupAssignment) -> dict[TaskId, Why]:  # noqa: A002
    """Those reasons for moves that KIP-415 does not have."""
    handing, excess = settled.hand_over, stateful.excess
    leaving = {
        worker: outcome.revoked[worker] & settled.kept[worker] for worker in round.leaving_soon & outcome.revoked.keys()
    }
    return {
        **{
            task: Why(MoveReason.BALANCE, worker, excess.load_of(worker))
            for worker, tasks in stateful.idle.items()
            for task in tasks
        },
        **_each(leaving, MoveReason.LEAVING),
        **_each(stateful.further.released, MoveReason.LEARNED),
        **_each(handing.taken_back, MoveReason.NOT_READY),
        **{task: Why(MoveReason.LEARNED, handing.owners.get(task)) for task in all_of(handing.handed)},
    }


def _each(shares: Shares, reason: MoveReason) -> dict[TaskId, Why]:
    """Give all tasks of several workers the same reason."""
    return {task: Why(reason, worker) for worker, tasks in shares.items() for task in tasks}
