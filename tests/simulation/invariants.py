"""What must hold in every history, each rule as a function with its sentence.

They are asked at every step that could break them: those about tasks whenever a task starts, stops, changes its owner
or is claimed twice, those about a round when the coordinator has its assignment, those about records when one arrives.
They take what the simulation saw from outside (what ran, what went over the wire), not what the product thinks of it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ParamSpec

from simulation.group import RoundSeen
from simulation.rounds import Round, Start
from simulation.shares import shares_of
from simulation.status import TaskWord

from airflow_provider.membership.record import ClassicRecord
from airflow_provider.membership.state import MemberState
from airflow_provider.protocol.holding import StopReason
from airflow_provider.protocol.member_events import StopTasks
from airflow_provider.protocol.model import NO_TASKS, SubProtocol, TaskId, Tasks, WorkerId

if TYPE_CHECKING:
    from simulation.process import Process

Params = ParamSpec("Params")


class BrokenError(AssertionError):
    """An invariant does not hold.

    :param invariant: its name
    """

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"broken: {invariant}: {what}")
        self.invariant = invariant


class Broken(Exception):  # noqa: N818  # it is no error until its rule has been named
    """A rule does not hold."""


def invariant(rule: Callable[Params, None]) -> Callable[Params, None]:
    """Names the rule in what is raised."""

    @functools.wraps(rule)
    def named(*args: Params.args, **kwargs: Params.kwargs) -> None:
        try:
            rule(*args, **kwargs)
        except Broken as broken:
            raise BrokenError(rule.__name__, str(broken)) from None

    return named


# ---- tasks, at every moment


def missed_a_downgrade(worker: str, state: MemberState, rounds: Sequence[RoundSeen]) -> bool:
    """The one situation in which tasks may run twice: the group has gone back to the eager protocol in a round that
    this process joined, and it has not heard of it. It joins the next round with its tasks running, and eager metadata
    have no field for them. It stops them as soon as it has an assignment.

    :param state: what the process knows
    """
    joined_an_eager_one = False
    for seen in reversed(rounds):
        if (seen.generation, seen.leader_member) == (state.last_completed, state.last_leader):
            return joined_an_eager_one and seen.protocol.cooperative
        joined_an_eager_one |= not seen.protocol.cooperative and worker in seen.joined
    return False


def _may_overlap(holder: Process, task: TaskId) -> bool:
    rounds = holder.world.coordinator.rounds
    return task in holder.tasks.belated or missed_a_downgrade(holder.worker, holder.state, rounds)


@invariant
def no_two_current_members_own_a_task(task: TaskId, owners: Iterable[Process]) -> None:
    """No two members of the group's present generation own a task. A member that has yet to hear its assignment, or
    was told to let go of the task, counts only if the task runs there: it may believe so since it missed a round.
    """
    current = [
        owner.name
        for owner in owners
        if not _may_overlap(owner, task)
        and owner.world.coordinator.is_current(owner.state.member_id, owner.state.generation)
        and (task in owner.running or _believes_rightly(owner, task))
    ]
    if len(current) > 1:
        raise Broken(f"{task} is owned by {' and '.join(current)}")


@invariant
def no_two_copies_run_at_once(task: TaskId, holders: Iterable[Process]) -> None:
    """No two attached copies of a task run together. One in a process that woke too late does not count if its fence
    raises.
    """
    running = [holder.name for holder in holders if holder.tasks.runs(task) and not _may_overlap(holder, task)]
    if len(running) > 1:
        raise Broken(f"{task} runs in {' and in '.join(running)}")


@invariant
def no_more_slots_are_taken_than_there_are(process: Process, taken: Mapping[TaskId, int]) -> None:
    """What runs in a process has the slots that it wants, or all that there are, and all of it no more than these.

    :param taken: how many each task has
    """
    slots = process.world.slots
    if sum(taken.values()) > slots:
        raise Broken(f"{process.name} has {slots}, and runs {dict(taken)}")


@invariant
def a_fence_raises_for_every_holder_that_is_not_current(task: TaskId, holders: Sequence[Process]) -> None:
    """Of all processes that hold a copy of a task, only in the one that started it last may its fence let it pass; also
    in one that is paused, at whatever moment it wakes.
    """
    for holder in holders[:-1]:
        if holder.tasks.may_write(task) and not _may_overlap(holder, task):
            raise Broken(f"{task} may still write in {holder.name}, though {holders[-1].name} has it")


@invariant
def a_task_is_started_only_after_it_was_stopped_or_its_lease_was_over(
    process: Process, task: TaskId, holders: Iterable[Process]
) -> None:
    """A task is started elsewhere only after it was stopped, or the lease of the worker that has it was over."""
    for holder in holders:
        if not holder.lease_over and not _may_overlap(holder, task):
            left = (holder.state.lease_until or 0) - holder.now
            raise Broken(f"{process.name} starts {task}, which {holder.name} runs with a lease of {left} ms more")


@invariant
def untouched_members_stop_only_what_is_revoked(process: Process, command: StopTasks, rounds: Sequence[Round]) -> None:
    """A member that was not touched by a fault stops nothing but what the leader takes from it (in an eager group:
    everything in each round) and, when it was told to leave, all it has. Unless others keep a rebalance from ending for
    as long as its timeout: then it cannot know that its JoinGroup was not lost.
    """
    if process.touched or process.world.anything_lossy or command.reason is StopReason.LEAVING:
        return
    if command.reason is StopReason.LEARNED:
        return  # a rule of its own watches over that
    if command.reason is StopReason.EAGER and process.state.protocol is SubProtocol.DEFAULT:
        return
    if command.reason is StopReason.LEASE_OVER and process.state.rebalance_deadline is not None:
        return
    if command.reason is not StopReason.REVOKED:
        raise Broken(f"{process.name} stops {names(command.tasks)}: {command.reason.value}")
    told = next((each for each in reversed(rounds) if each.seen.generation == process.state.generation), None)
    if told is None or not told.cooperative:
        return
    extra = command.tasks - told.revoked.get(process.worker, NO_TASKS)
    if extra:
        raise Broken(f"{process.name} stops {names(extra)}, which the round did not revoke")


# ---- epochs and records


@invariant
def epochs_only_grow(name: str, before: int, after: int) -> None:
    """A member's epochs only grow, also when the coordinator forgets the group and counts from 1 again."""
    if after < before:
        raise Broken(f"{name} goes from epoch {before} back to {after}")


@invariant
def each_round_has_an_epoch_of_its_own(before: Round | None, now: Round) -> None:
    """The epochs of rounds grow, in the order in which the coordinator took their assignments.

    Not asked where the record of the round before was never written: nobody knows of its epoch then unless somebody
    spoke in it, and about what was said the next rule watches.
    """
    if before is not None and now.follows(before) and now.record.epoch <= before.record.epoch:
        raise Broken(f"generation {now.seen.generation} is epoch {now.record.epoch}, after {before.record.epoch}")


@invariant
def a_task_goes_to_another_worker_with_a_higher_epoch(
    task: TaskId, before: Start | None, now: Start, records: Sequence[ClassicRecord]
) -> None:
    """Each worker that takes a task over does so in a higher epoch than the one before, and the same never in a lower
    one: that is what makes words about it comparable.

    Not asked where nobody can know from where to count on: see :meth:`~.rounds.Start.counts_on_from`.
    """
    if before is None:
        return
    lower = now.epoch < before.epoch or (now.epoch == before.epoch and now.worker != before.worker)
    if lower and now.counts_on_from(before, records):
        raise Broken(f"{now.worker} starts {task} in epoch {now.epoch}, after {before.worker} did in {before.epoch}")


@invariant
def a_stale_epoch_never_wins(known: TaskWord | None, new: TaskWord, uncounted: Collection[int], *, wins: bool) -> None:
    """In the status topic no late word about an earlier start replaces a word about a later one by another worker, and
    every word about a later start replaces what was known.

    Not asked where between the two nobody could know from where to count on. The leader has the group rebalance then.

    :param uncounted: the numbers of such starts of the task
    """
    if known is None or known.start is None or new.start is None:
        return
    if known.start == new.start or known.status.worker == new.status.worker:
        return
    if any(min(known.start, new.start) < start <= max(known.start, new.start) for start in uncounted):
        return
    if wins != (new.start > known.start):
        verdict = "wins over" if wins else "loses against"
        raise Broken(f"{_word(new)} {verdict} {_word(known)}")


@invariant
def the_status_topic_tells_what_runs(words: Mapping[TaskId, TaskWord], running: Mapping[TaskId, str]) -> None:
    """When all is quiet, the last word about each task that runs is its worker's, and says that it runs."""
    for task, worker in running.items():
        word = words.get(task)
        if word is None or not word.running or word.status.worker != worker:
            raise Broken(f"{task} runs on {worker}, and the topic says {_word(word) if word else 'nothing'}")


# ---- rounds


@invariant
def no_leader_asks_for_the_same_again_and_again(before: Round | None, now: Round) -> None:
    """A round that a leader asks for, since somebody has to be given something, gives somebody something. Once it may
    come too late, or be asked for in vain: a fenced process says in its worker's name that it has stopped.

    Not asked where the leader had not heard that the round before was completed: it has asked only once, and joined
    again since no answer came.
    """
    if before is not None and now.follows(before) and before.asked_in_vain and now.asked_in_vain:
        raise Broken(f"epoch {now.record.epoch} was asked for and changes nothing, as the one before it")


@invariant
def nothing_is_assigned_and_revoked_in_one_round(now: Round) -> None:
    """Within one round nothing is both assigned and revoked, on whichever members."""
    both = all_of(now.assigned) & all_of(now.revoked)
    if both and now.cooperative:
        raise Broken(f"epoch {now.record.epoch} assigns and revokes {names(both)}")


@invariant
def the_target_is_complete_and_without_duplicates(now: Round) -> None:
    """After a round every configured task is with one member, or was revoked to go on in the next round, or waits for
    its worker; nothing is with two, and nothing is that is not configured. The record says the same as the wire. Where
    nobody stays, what is new waits for others to come.
    """
    if not now.cooperative and _downgrades(now):
        return
    target = now.target if now.cooperative else now.assigned
    whole = all_of(target)
    if sum(map(len, target.values())) != len(whole):
        raise Broken(f"epoch {now.record.epoch} gives a task to two: {target}")
    if whole - now.configured:
        raise Broken(f"epoch {now.record.epoch} keeps {names(whole - now.configured)}, which is not configured")
    missing = now.configured.difference(whole, now.waiting, *now.revoked.values())
    if missing and now.staying:
        raise Broken(f"epoch {now.record.epoch} forgets {names(missing)}")
    whole_target = {worker: tasks | now.told_kept.get(worker, NO_TASKS) for worker, tasks in target.items()}
    if whole_target != dict(now.record.assignment):
        raise Broken(f"epoch {now.record.epoch} is written down as {now.record.assignment}, but is {whole_target}")


@invariant
def what_failed_stays_with_its_worker(now: Round) -> None:
    """A round leaves what has failed for good to the worker that reports it, and gives it to nobody else. What two
    report, as one speaks for a process that had its name before, both let go of.
    """
    times = Counter(task for kept in now.kept.values() for task in kept)
    for worker, told in now.told_kept.items():
        kept = frozenset(task for task in now.kept[worker] if times[task] == 1)
        if told != kept:
            raise Broken(f"epoch {now.record.epoch} has {worker} keep {names(told)}, not {names(kept)}")


@invariant
def what_failed_starts_only_when_somebody_asks(
    task: TaskId, failed: tuple[str, int] | None, now: tuple[str, int]
) -> None:
    """A worker at which a task has failed for good, and that has not let go of it, does not start it again unless
    somebody wants that, or it is to run something else.

    :param failed: what it ran, and how often it had been asked for by then; None: it has not failed there
    """
    if failed == now:
        raise Broken(f"{task} has failed, and starts again")


@invariant
def a_task_is_tried_again_without_a_round(now: Round, tried_again: Tasks) -> None:
    """Where what has failed is tried again in a group at rest, no leader looks for a place for it.

    :param tried_again: what is, and nothing else is going on
    """
    if tried_again and now.record.because.startswith("new work"):
        raise Broken(f"epoch {now.record.epoch}, as {names(tried_again)} was tried again: {now.record.because}")


@invariant
def nothing_is_revoked_for_balance_while_a_delay_runs(now: Round) -> None:
    """No balancing revocation while a delay runs: only what is not configured or owned twice is stopped then, and what
    nobody stops for balance: a learner is ready for it, it has not started, or its worker leaves.
    """
    if now.delay_ms:
        balancing = all_of(_balancing(now)) & now.configured - now.duplicated
        if balancing:
            raise Broken(f"epoch {now.record.epoch} revokes {names(balancing)} while {now.delay_ms} ms are to pass")


@invariant
def only_the_surplus_moves(now: Round) -> None:
    """Nobody who gives something up for balance is left with less than the even share of that kind."""
    for worker, given in _balancing(now).items():
        for share in shares_of(now):
            left = share.load_of(worker, now.target[worker])
            some = [task for task in given & now.owned[worker] & now.configured - now.duplicated if share.is_of(task)]
            least = share.each * now.weight_of(worker)
            if some and left < least:
                raise Broken(f"epoch {now.record.epoch} takes {names(some)} from {worker}: {left} left of {least}")


@invariant
def nothing_that_runs_moves_for_its_cost(now: Round) -> None:
    """Of what is shared out by its cost, only what waits is taken from a worker that has it; unless two have it."""
    if not now.cooperative:
        return
    stopped = all_of(_balancing(now)) & now.by_cost & now.running & now.configured - now.duplicated
    if stopped:
        raise Broken(f"epoch {now.record.epoch} stops {names(stopped)}, which is shared out by its cost")


@invariant
def lost_tasks_wait_at_most_the_delay(now: Round, until: Mapping[TaskId, int], skew_ms: int) -> None:
    """Lost tasks wait for their worker at most the scheduled delay from the round on that missed them, or as long as it
    said that its return takes, whatever rounds and leaders follow. Where the record of a round was never written the
    wait begins anew: nobody knows of it.

    :param until: for each task that waits, the latest end of its delay by the wall clock
    :param skew_ms: how far the leaders' wall clocks are apart
    """
    for task in now.waiting:
        deadline = now.deadline_of(task)
        if deadline > until[task] + skew_ms or now.record.at_ms >= deadline:
            raise Broken(f"epoch {now.record.epoch} lets {task} wait until {deadline}, it may until {until[task]}")


@invariant
def the_deadline_survives_leaders(before: Round | None, now: Round, skew_ms: int) -> None:
    """A new leader goes on with the delays that run: what is still lost waits until the same time, unless its worker is
    back.

    Not asked where the new leader could not read the record of the last round, as it was never written; nor where that
    round's revocations were not carried out: then what it assigned is not trusted (Connect's rule as well).
    """
    if before is None or not now.cooperative or not now.follows(before):
        return
    if now.record.leader == before.record.leader or not before.record.memory.revoked.isdisjoint(all_of(now.owned)):
        return
    for task in (before.waiting & now.configured).difference(*now.owned.values()):
        deadline = before.deadline_of(task)
        if now.record.at_ms >= deadline or before.owner_of(task) in now.owned:
            continue
        if now.lessons is not None and any(task in ready for ready in now.lessons.ready.values()):
            continue
        if task not in now.waiting:
            raise Broken(f"epoch {now.record.epoch} deals out {task} {deadline - now.record.at_ms} ms early")
        if abs(now.deadline_of(task) - deadline) > skew_ms:
            raise Broken(f"epoch {now.record.epoch} has {task} wait until {now.deadline_of(task)}, not {deadline}")


@invariant
def who_never_comes_back_is_not_waited_for(now: Round) -> None:
    """What a worker had that has said, as the member that is missed, that it will not be back, waits in no round."""
    for task in now.waiting:
        worker = now.owner_of(task)
        if now.at_most_ms(worker) == 0:
            raise Broken(f"epoch {now.record.epoch} lets {task} wait for {worker}, which never comes back")


@invariant
def who_is_back_has_its_own(now: Round) -> None:
    """What a member has lost does not wait, and is its own again in that round, unless that gave it more than the even
    share.

    Who has what in the end is not asked where the last round is not known: what it assigned is not trusted then.
    """
    for task in now.waiting:
        if now.owner_of(task) in now.owned:
            raise Broken(f"epoch {now.record.epoch} lets {task} wait for {now.owner_of(task)}, which is back")
    last = now.last
    if last is None or not now.cooperative or last.generation != now.seen.generation - 1:
        return
    if not last.memory.revoked.isdisjoint(all_of(now.owned)):
        return
    for worker in now.owned:
        given_away = _given_away(now, worker, last.memory.assignment.get(worker, NO_TASKS))
        if given_away:
            raise Broken(f"epoch {now.record.epoch} gives away {names(given_away)} of {worker}, which is back")


@invariant
def what_is_planned_anew_stays_put(now: Round) -> None:
    """A task that was not configured while its job was planned anew, or had ended, and is configured again, goes to the
    member that had it, unless that gave it more than the even share.
    """
    if now.last is None or not now.cooperative:
        return
    for worker in now.owned:
        given_away = _given_away(now, worker, now.last.memory.former.get(worker, NO_TASKS))
        if given_away:
            raise Broken(f"epoch {now.record.epoch} gives away {names(given_away)}, which {worker} had before")


def _given_away(now: Round, worker: WorkerId, had: Tasks) -> list[TaskId]:
    """What nobody has, and a member had that has less than its share and does not get it. What was learned goes to who
    has learned it.
    """
    target = now.target[worker]
    gone = (had & now.configured) - target - all_of(now.owned)
    if now.lessons is not None:
        gone -= {task for learns in now.lessons.learns.values() for task in learns}
    weight = now.weight_of(worker)
    shares = [share for share in shares_of(now) if share.load_of(worker, target) < share.each * weight]
    return [task for task in gone if any(share.is_of(task) for share in shares)] if worker in now.staying else []


def _balancing(now: Round) -> dict[WorkerId, Tasks]:
    """By worker what it gives up that might be for balance."""
    if now.lessons is None:
        drained = dict.fromkeys(now.draining, now.running)
        return {worker: revoked & drained.get(worker, revoked) for worker, revoked in now.revoked.items()}
    ready, learns = all_of(now.lessons.ready), frozenset[TaskId]().union(*now.lessons.learns.values())
    return {
        worker: revoked - ready - (learns - now.running)
        for worker, revoked in now.revoked.items()
        if worker in now.staying
    }


# ---- when the faults stop


@invariant
def everything_converges(*, settled: bool, within: int) -> None:
    """When faults stop, the group comes to rest, with every task running once, within a bounded number of rounds."""
    if not settled:
        raise Broken(f"the group did not come to rest in time and within {within} rounds")


@invariant
def the_spread_is_at_most_one(shares: Mapping[str, Tasks]) -> None:
    """In a group at rest no member has more than one planner more, or one task more, than another."""
    for kind in (True, False):
        counts = {worker: sum(task.is_planner is kind for task in share) for worker, share in shares.items()}
        if counts and max(counts.values()) - min(counts.values()) > 1:
            raise Broken(f"{'planners' if kind else 'tasks'}: {counts}")


def _believes_rightly(owner: Process, task: TaskId) -> bool:
    return owner.state.last_completed == owner.state.generation and task not in owner.state.stopping


def _downgrades(now: Round) -> bool:
    """An eager round that gives nobody anything, for the round before it may have been a cooperative one."""
    last = now.last
    follows = last is not None and last.generation == now.seen.generation - 1 and not last.protocol.cooperative
    return not follows and not any(now.assigned.values())


def all_of(shares: Mapping[WorkerId, Tasks]) -> Tasks:
    """The tasks of all workers together."""
    return NO_TASKS.union(*shares.values())


def names(tasks: Collection[TaskId]) -> str:
    """For what is raised."""
    return ", ".join(map(str, sorted(tasks)))


def _word(word: TaskWord) -> str:
    status = word.status
    return f"{status.worker}'s {status.task} {status.state.value} (start {word.start}, epoch {status.epoch})"
