"""The assignment with learner tasks: a task that has state is made ready on its new worker before it moves.

Source: the proposal of learner tasks for Kafka Streams, of which came KIP-441 (warm-up replicas) and KIP-1071 (warm-up
tasks). This extends KIP-415: what has no state moves as module ``cooperative`` says, and without a stateful job every
round comes out as there. How a round goes beyond that:

1. **Stateful tasks are a kind of their own.** They are spread evenly over the workers that stay; the stateless ones are
   then spread so that the tasks of both kinds together are even. What has not started has nothing to lose: it moves as
   a stateless one.
2. **A move begins with a lesson.** What is above a worker's share is not stopped. The worker that it is for learns it,
   while its owner runs it on (module ``lessons``). Shares count each lesson as if the move was done, so one
   that is under way is no reason to begin another.
3. **A learner that is ready has its task as soon as nobody has it** (module ``under_way``): the owner has
   stopped it before it joined, or is gone. If the owner still has it, it stops it now, and the learner has it in the
   next round, as in KIP-415. When owners stop what is learned is a rule of theirs (``LearnedRule``): both come out
   right here, since a leader only looks at what is owned and who is ready.
4. **Ownership and learning are never mixed.** A learner owns nothing, so nothing that happens to it stops anything.

What holds beyond ``cooperative``, by name:

``warm-replaces-lost``
    A lost owner whose learner is ready is replaced in the round that misses it, without the delay.
``half-warm-first``
    When lost work has waited long enough, it goes to the worker that learns it, ready or not.
``a-learner-costs-nothing``
    When a learner dies or its worker leaves, nothing stops and nothing waits; what its owner had stopped for it, the
    owner has again.
``nobody-starts-over``
    What is learned is learned on when one more worker joins. A lesson ends without a move only if the owner has room
    for the task and the learner has not, if it fails or takes too long (``Limits.longest_ms``), or if there is nothing
    to learn.
``who-fails-gives-up-its-place``
    What a learner could not make ready stays where it is and runs, or, if its worker leaves, moves cold. It is tried
    nowhere until a worker comes or goes, or its job is submitted anew; and where so many tasks of a job have failed
    (``MOST_GIVEN_UP``), no other one of it is tried.
``who-leaves-gets-nothing``
    A leaving worker is given nothing that it did not have. Its stateful tasks are learned by those who stay, the others
    move as in KIP-415. It is done when it has nothing. If all leave, nobody stays to learn, so each keeps what it has,
    and what is new waits for others to come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_provider.assignors.balance import limited
from airflow_provider.assignors.model import GroupAssignment, Load, Move, MoveReason
from airflow_provider.assignors.moves import Shuffle, write_down
from airflow_provider.assignors.pace import Pace, pace
from airflow_provider.assignors.policy import Incremental, Policy
from airflow_provider.assignors.pools import Kinds, pools_of
from airflow_provider.assignors.shares import Shares, merged, minus, plus
from airflow_provider.learners.lessons import at_most
from airflow_provider.learners.model import (
    DEFAULT_LIMITS,
    LearnerAssignment,
    LearnerMemory,
    LearnerRound,
    Limits,
)
from airflow_provider.learners.settled import Settled, of_staying, settle
from airflow_provider.learners.stateful import Stateful, begin_lessons, given_up, spread
from airflow_provider.learners.under_way import by_worker
from airflow_provider.learners.why import Why, each, explained
from airflow_provider.protocol.model import NO_TASKS, TaskId, WorkerId


def assign(
    round: LearnerRound,  # noqa: A002  # it is KIP-415's word
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
    evened = _even_out(round, memory, policy, limits, settled, stateful)
    begun = begin_lessons(round, limits, stateful, evened.stops)
    outcome = write_down(
        round, memory.cooperative, settled.difference, settled.lost_work, evened.decided, evened.shuffle
    )
    return _with_learners(round, memory, outcome, settled, stateful, begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evened:
    """What starts and stops, and how many running tasks of each worker are to be learned for balance."""

    decided: Pace
    shuffle: Shuffle
    stops: Mapping[WorkerId, int]


def _even_out(
    round: LearnerRound,  # noqa: A002
    memory: LearnerMemory,
    policy: Policy,
    limits: Limits,
    settled: Settled,
    stateful: Stateful,
) -> _Evened:
    """Even out what has no state, around what has; under a policy of steps a lesson counts as a move."""
    kinds = Kinds.by_number(round) if stateful.tasks else Kinds.of(round)
    stays = minus(kinds.stays(round), stateful.tasks)
    apart = plus(stateful.tasks, stays)
    stateless = {worker: minus(tasks, apart) for worker, tasks in of_staying(settled.kept, round).items()}
    if not stateless:
        decided = pace(policy, settled.lost_work, memory.cooperative, wants_to_revoke=False, now_ms=round.now_ms)
        return _Evened(decided=decided, shuffle=Shuffle(kept=settled.kept, taken={}, given=settled.at_once), stops={})
    own = {worker: minus(tasks, stateful.tasks) for worker, tasks in settled.own.items()}
    fixed = stateful.excess.even(stateful.stops) if stateful.tasks else {}
    if stays:
        fixed = {worker: fixed.get(worker, 0) + len(settled.kept[worker] & stays) for worker in stateless}
    drains = settled.drains.without(frozenset(stateful.further.lessons))
    free = minus(settled.free, stateful.tasks)
    pools = pools_of(round, memory.cooperative, kinds, drains, stateless, own, free, fixed)
    stops = limited(stateful.stops, max(0, limits.per_group - len(stateful.further.lessons)))
    in_steps = isinstance(policy, Incremental)
    wants = pools.stops > 0 or bool(stateful.idle) or (in_steps and any(stops.values()))
    decided = pace(policy, settled.lost_work, memory.cooperative, wants_to_revoke=wants, now_ms=round.now_ms)
    left = decided.allowance - min(decided.allowance, pools.stops)
    idle = at_most(stateful.idle, left)
    relieved = pools.relieve(round.revocation_rank, decided.allowance)
    taken = merged(
        (*relieved, drains.waits, idle, stateful.further.released, _stopped_by_leaving(round, settled, stateful))
    )
    given = merged((settled.at_once, stateful.given, *pools.returned, *pools.place(free)))
    return _Evened(
        decided=decided,
        shuffle=Shuffle(kept=settled.kept, taken=taken, given=given, over=pools.over(drains)),
        stops=limited(stops, left - sum(map(len, idle.values()))) if in_steps else stops,
    )


def _stopped_by_leaving(round: LearnerRound, settled: Settled, stateful: Stateful) -> Shares:  # noqa: A002
    """What those who leave stop now: what has no state, or has not started. The rest is learned before it goes."""
    learned = minus(frozenset(stateful.further.holders), round.pending)
    return {
        worker: minus(settled.kept[worker], plus(stateful.running[worker], learned))
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
    """What the round decides of starts and stops, and of learners beside it."""
    on, released = stateful.further, stateful.further.released
    stopped = NO_TASKS.union(*released.values())
    learners = {task: lesson.worker for task, lesson in on.lessons.items()}
    owners = {task: owner for task, owner in on.holders.items() if task not in stopped}
    for move in begun:
        assert move.source is not None
        assert move.target is not None
        learners.update(dict.fromkeys(move.tasks, move.target))
        owners.update(dict.fromkeys(move.tasks, move.source))
    learning, learned = by_worker(learners.items()), by_worker(owners.items())
    members = outcome.target
    whys = _whys(round, settled, stateful, outcome)
    cooperative = outcome.memory
    if whys:
        cooperative = replace(cooperative, released=tuple(explained(cooperative.released, whys)))
    # What nobody has started goes to its learner: its owner need not have it again.
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
                worker: {task: on.lessons[task].since_ms if task in on.lessons else round.now_ms for task in tasks}
                for worker, tasks in learning.items()
            },
            given_up=given_up(round, memory, on),
        ),
        moves=tuple(explained(outcome.moves, whys)) if whys else outcome.moves,
        lessons=begun,
    )


def _is_done(worker: WorkerId, round: LearnerRound, outcome: GroupAssignment) -> bool:  # noqa: A002
    return not round.owned[worker] and not outcome.target[worker]


def _whys(round: LearnerRound, settled: Settled, stateful: Stateful, outcome: GroupAssignment) -> dict[TaskId, Why]:  # noqa: A002
    """The reasons that KIP-415 does not have."""
    handing, excess = settled.hand_over, stateful.excess
    leaving = {
        worker: outcome.revoked[worker] & settled.kept[worker] for worker in round.leaving_soon & outcome.revoked.keys()
    }
    return {
        **{
            task: Why(MoveReason.BALANCE, worker, Load(excess.loads[worker], excess.share))
            for worker, tasks in stateful.idle.items()
            for task in tasks
        },
        **each(leaving, MoveReason.LEAVING),
        **each(stateful.further.released, MoveReason.LEARNED),
        **each(handing.taken_back, MoveReason.NOT_READY),
        **{
            task: Why(MoveReason.LEARNED, handing.owners.get(task))
            for tasks in handing.handed.values()
            for task in tasks
        },
    }
