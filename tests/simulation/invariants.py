"""The rules that must hold in every history, each a function whose docstring states it.

They are checked at every step that could break them: rules about tasks whenever a task starts, stops, changes its owner
or is claimed twice; rules about a round when the coordinator has its assignment; rules about records when one arrives.
They use what the simulation sees from outside (what runs, what goes over the wire), not the product's own view.
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

from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.machine.events import StopTasks
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import NO_TASKS, SubProtocol, TaskId, Tasks, WorkerId

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


class Broken(Exception):  # noqa: N818  # becomes an error once its rule is named
    """A rule does not hold."""


def invariant(rule: Callable[Params, None]) -> Callable[Params, None]:
    """Adds the rule's name to the error."""

    @functools.wraps(rule)
    def named(*args: Params.args, **kwargs: Params.kwargs) -> None:
        try:
            rule(*args, **kwargs)
        except Broken as broken:
            raise BrokenError(rule.__name__, str(broken)) from None

    return named


# ---- tasks, at every moment


def missed_a_downgrade(worker: str, state: MemberState, rounds: Sequence[RoundSeen]) -> bool:
    """The one situation in which tasks may run twice: the group went back to the eager protocol in a round that this
    process joined, but the process did not get the answer. It joins the next round with its tasks running, and eager
    metadata have no field for them. It stops them as soon as it has an assignment.

    :param state: what the process knows
    """
    joined_an_eager_one = False
    for seen in reversed(rounds):
        if (seen.generation, seen.leader_member) == (state.last_completed, state.last_leader):
            return joined_an_eager_one and seen.protocol.cooperative
        joined_an_eager_one |= not seen.protocol.cooperative and worker in seen.joined
    return False


def may_overlap(holder: Process, task: TaskId) -> bool:
    """Whether the task may run in this process while another one has it: see :func:`missed_a_downgrade`."""
    rounds = holder.world.coordinator.rounds
    return task in holder.tasks.belated or missed_a_downgrade(holder.worker, holder.state, rounds)


@invariant
def no_two_current_members_own_a_task(task: TaskId, owners: Iterable[Process]) -> None:
    """No two members of the group's present generation own a task. A member that does not yet have its assignment, or
    was told to release the task, only counts if the task runs there: it may have missed a round.
    """
    current = [
        owner.name
        for owner in owners
        if not may_overlap(owner, task)
        and owner.world.coordinator.is_current(owner.state.member_id, owner.state.generation)
        and (task in owner.running or _believes_rightly(owner, task))
    ]
    if len(current) > 1:
        raise Broken(f"{task} is owned by {' and '.join(current)}")


@invariant
def no_two_copies_run_at_once(task: TaskId, holders: Iterable[Process]) -> None:
    """No two attached copies of a task run together. A copy in a process that woke too late does not count if its fence
    raises.
    """
    running = [holder.name for holder in holders if holder.tasks.runs(task) and not may_overlap(holder, task)]
    if len(running) > 1:
        raise Broken(f"{task} runs in {' and in '.join(running)}")


@invariant
def no_more_slots_are_taken_than_there_are(process: Process, taken: Mapping[TaskId, int]) -> None:
    """Each running task has the slots that it needs, or all that streams leave of the worker's, and together they take
    no more than these.

    :param taken: how many slots each task has
    """
    slots = process.slots
    if sum(taken.values()) > slots:
        raise Broken(f"{process.name} has {slots}, and runs {dict(taken)}")


@invariant
def a_fence_raises_for_every_holder_that_is_not_current(task: TaskId, holders: Sequence[Process]) -> None:
    """Only the copy of a task that was started last may pass its fence, at whatever moment paused processes wake."""
    for holder in holders[:-1]:
        if holder.tasks.may_write(task) and not may_overlap(holder, task):
            raise Broken(f"{task} may still write in {holder.name}, though {holders[-1].name} has it")


@invariant
def a_task_is_started_only_after_it_was_stopped_or_its_lease_was_over(
    process: Process, task: TaskId, holders: Iterable[Process]
) -> None:
    """A task is started elsewhere only after it was stopped, or after its worker's lease was over."""
    for holder in holders:
        if not holder.lease_over and not may_overlap(holder, task):
            left = (holder.state.lease_until or 0) - holder.now
            raise Broken(f"{process.name} starts {task}, which {holder.name} runs with a lease of {left} ms more")


@invariant
def untouched_members_stop_only_what_is_revoked(process: Process, command: StopTasks, rounds: Sequence[Round]) -> None:
    """A member untouched by faults stops only what the leader revokes (in an eager group, everything in each round)
    or what is not configured any more, and, when it was told to leave, all it has. An exception: if others hold up a
    rebalance for longer than its timeout, the member cannot know that its JoinGroup was not lost.
    """
    if process.touched or process.world.anything_lossy or command.reason is StopReason.LEAVING:
        return
    if command.reason is StopReason.LEARNED:
        return  # another rule checks that
    if command.reason is StopReason.EAGER and process.state.protocol is SubProtocol.DEFAULT:
        return
    if command.reason is StopReason.LEASE_OVER and process.state.rebalance_deadline is not None:
        return
    if command.reason is not StopReason.REVOKED:
        raise Broken(f"{process.name} stops {names(command.tasks)}: {command.reason.value}")
    told = next((each for each in reversed(rounds) if each.seen.generation == process.state.generation), None)
    if told is None or not told.cooperative:
        return
    extra = command.tasks & told.configured - told.revoked.get(process.worker, NO_TASKS)
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

    Not checked where the record of the round before was never written: then nobody knows its epoch, unless somebody
    wrote in it, and the next rule checks what was written.
    """
    if before is not None and now.follows(before) and now.record.epoch <= before.record.epoch:
        raise Broken(f"generation {now.seen.generation} is epoch {now.record.epoch}, after {before.record.epoch}")


@invariant
def a_task_goes_to_another_worker_with_a_higher_epoch(
    task: TaskId, before: Start | None, now: Start, records: Sequence[ClassicRecord]
) -> None:
    """A worker that takes over a task starts it in a higher epoch than the worker before; the same worker never in a
    lower one. This makes the statuses of a task comparable.

    Not checked where nobody can know the last epoch: see :meth:`~.rounds.Start.counts_on_from`.
    """
    if before is None:
        return
    lower = now.epoch < before.epoch or (now.epoch == before.epoch and now.worker != before.worker)
    if lower and now.counts_on_from(before, records):
        raise Broken(f"{now.worker} starts {task} in epoch {now.epoch}, after {before.worker} did in {before.epoch}")


@invariant
def a_stale_epoch_never_wins(known: TaskWord | None, new: TaskWord, uncounted: Collection[int], *, wins: bool) -> None:
    """In the status topic, no late status of an earlier start replaces one of a later start by another worker, and each
    status of a later start replaces what was known.

    Not checked where nobody could know the last epoch between the two starts. Then the leader has the group rebalance.

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
    """When all is quiet, the last status of each running task is its worker's, and says that it runs."""
    for task, worker in running.items():
        word = words.get(task)
        if word is None or not word.running or word.status.worker != worker:
            raise Broken(f"{task} runs on {worker}, and the topic says {_word(word) if word else 'nothing'}")


# ---- rounds


@invariant
def no_leader_asks_for_the_same_again_and_again(before: Round | None, now: Round) -> None:
    """A round that a leader asks for because something has to be assigned, assigns something. It may be in vain once:
    if it comes too late, or if a fenced process reported in its worker's name that a task has stopped.

    Not checked where the leader did not know that the round before was completed: it asked only once, and joined again
    because no answer came.
    """
    if before is not None and now.follows(before) and before.asked_in_vain and now.asked_in_vain:
        raise Broken(f"epoch {now.record.epoch} was asked for and changes nothing, as the one before it")


@invariant
def nothing_is_assigned_and_revoked_in_one_round(now: Round) -> None:
    """Within one round no task is both assigned and revoked, at any members."""
    both = all_of(now.assigned) & all_of(now.revoked)
    if both and now.cooperative:
        raise Broken(f"epoch {now.record.epoch} assigns and revokes {names(both)}")


@invariant
def the_target_is_complete_and_without_duplicates(now: Round) -> None:
    """After a round every configured task is with one member, or was revoked to be assigned in the next round, or waits
    for its worker. No task is with two members, and none that is not configured is with any. The record agrees with the
    wire. Where no member stays, new tasks wait for others to join.
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
def a_failed_task_stays_with_its_worker(now: Round) -> None:
    """A round leaves a task that failed for good with the worker that reports it, and gives it to nobody else. If two
    report it, because one speaks for an earlier process of its name, both release it.
    """
    times = Counter(task for kept in now.kept.values() for task in kept)
    for worker, told in now.told_kept.items():
        kept = frozenset(task for task in now.kept[worker] if times[task] == 1)
        if told != kept:
            raise Broken(f"epoch {now.record.epoch} has {worker} keep {names(told)}, not {names(kept)}")


@invariant
def a_failed_task_starts_only_on_request(task: TaskId, failed: tuple[str, int] | None, now: tuple[str, int]) -> None:
    """A worker that keeps a task which failed for good there does not start it again unless somebody asks for that, or
    the task has other work.

    :param failed: the work that failed, and the number of requests by then; None if it has not failed there
    """
    if failed == now:
        raise Broken(f"{task} has failed, and starts again")


@invariant
def a_task_is_tried_again_without_a_round(now: Round, tried_again: Tasks) -> None:
    """If a failed task is retried in a group at rest, no leader assigns it elsewhere.

    :param tried_again: the retried tasks, while nothing else is going on
    """
    if tried_again and now.record.because.startswith("new work"):
        raise Broken(f"epoch {now.record.epoch}, as {names(tried_again)} was tried again: {now.record.because}")


@invariant
def nothing_is_revoked_for_balance_while_a_delay_runs(now: Round) -> None:
    """No revocation for balance while a delay runs. Other revocations are allowed: the task is not configured or owned
    twice, a learner is ready for it, it has not started, it has failed there, or its worker leaves.
    """
    if now.delay_ms:
        balancing = all_of(_balancing(now)) & now.configured - now.duplicated
        if balancing:
            raise Broken(f"epoch {now.record.epoch} revokes {names(balancing)} while {now.delay_ms} ms are to pass")


@invariant
def only_the_surplus_moves(now: Round) -> None:
    """No member that gives up tasks for balance is left with less than the even share of that kind; but what waits
    beside tasks by cost may go elsewhere. Not checked where some go elsewhere after a failure: what a member gets in
    the next round counts already.
    """
    if now.tried:
        return
    for worker, gives in _balancing(now).items():
        given = gives & now.running if now.owned[worker] & now.by_cost else gives
        for share in shares_of(now):
            left = share.load_of(worker, now.target[worker])
            some = [task for task in given & now.owned[worker] & now.configured - now.duplicated if share.is_of(task)]
            least = share.least(worker)
            if some and left < least:
                raise Broken(f"epoch {now.record.epoch} takes {names(some)} from {worker}: {left} left of {least}")


@invariant
def nothing_that_runs_moves_for_its_cost(now: Round) -> None:
    """Tasks that are shared out by cost are only taken from a worker while they wait, or if two workers have them."""
    if not now.cooperative:
        return
    stopped = all_of(_balancing(now)) & now.by_cost & now.running & now.configured - now.duplicated
    if stopped:
        raise Broken(f"epoch {now.record.epoch} stops {names(stopped)}, which is shared out by its cost")


@invariant
def lost_tasks_wait_at_most_the_delay(now: Round, until: Mapping[TaskId, int], skew_ms: int) -> None:
    """Lost tasks wait for their worker at most for the scheduled delay from the round that missed them, or for the time
    that its return takes as it said, whatever rounds and leaders follow. If the record of a round was never written,
    the wait starts again, because nobody knows of it.

    :param until: the latest end of each waiting task's delay, by the wall clock
    :param skew_ms: the difference of the leaders' wall clocks
    """
    for task in now.waiting:
        deadline = now.deadline_of(task)
        if deadline > until[task] + skew_ms or now.record.at_ms >= deadline:
            raise Broken(f"epoch {now.record.epoch} lets {task} wait until {deadline}, it may until {until[task]}")


@invariant
def the_deadline_survives_leaders(before: Round | None, now: Round, skew_ms: int) -> None:
    """A new leader keeps the running delays: tasks that are still lost wait until the same time, unless their worker is
    back, or has said that it will not be.

    Not checked where the record of the last round was never written, so that the new leader could not read it; nor
    where that round's revocations were not carried out: then its assignment is not trusted (this is also Connect's
    rule).
    """
    if before is None or not now.cooperative or not now.follows(before):
        return
    if now.record.leader == before.record.leader or not before.record.memory.revoked.isdisjoint(all_of(now.owned)):
        return
    for task in (before.waiting & now.configured).difference(*now.owned.values()):
        deadline = before.deadline_of(task)
        if now.record.at_ms >= deadline or now.knows_of(before.owner_of(task)):
            continue
        if now.lessons is not None and any(task in ready for ready in now.lessons.ready.values()):
            continue
        if task not in now.waiting:
            raise Broken(f"epoch {now.record.epoch} deals out {task} {deadline - now.record.at_ms} ms early")
        if abs(now.deadline_of(task) - deadline) > skew_ms:
            raise Broken(f"epoch {now.record.epoch} has {task} wait until {now.deadline_of(task)}, not {deadline}")


@invariant
def nobody_waits_for_a_worker_that_never_returns(now: Round) -> None:
    """Tasks of a missing member that has said that it will not return wait in no round."""
    for task in now.waiting:
        worker = now.owner_of(task)
        if now.at_most_ms(worker) == 0:
            raise Broken(f"epoch {now.record.epoch} lets {task} wait for {worker}, which never comes back")


@invariant
def a_returning_worker_has_its_own_tasks(now: Round) -> None:
    """Tasks that a returning member had lost do not wait: they are its own again in the round of its return, unless it
    would then have more than the even share.

    The final owners are not checked where the last round is not known: then its assignment is not trusted.
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
def a_replanned_task_stays_put(now: Round) -> None:
    """A task that is configured again, after its job was replanned or had ended, goes to the member that had it, unless
    that would then have more than the even share.
    """
    if now.last is None or not now.cooperative:
        return
    for worker in now.owned:
        given_away = _given_away(now, worker, now.last.memory.former.get(worker, NO_TASKS))
        if given_away:
            raise Broken(f"epoch {now.record.epoch} gives away {names(given_away)}, which {worker} had before")


def _given_away(now: Round, worker: WorkerId, had: Tasks) -> list[TaskId]:
    """The tasks without an owner that a member had and does not get back, although it has less than its share. Learned
    tasks go to their learner.
    """
    target = now.target[worker]
    gone = (had & now.configured) - target - all_of(now.owned)
    if now.lessons is not None:
        gone -= {task for learns in now.lessons.learns.values() for task in learns}
    shares = [share for share in shares_of(now) if share.load_of(worker, target) < share.least(worker)]
    return [task for task in gone if any(share.is_of(task) for share in shares)] if worker in now.staying else []


def _balancing(now: Round) -> dict[WorkerId, Tasks]:
    """The tasks that each worker gives up and that might be for balance."""
    if now.lessons is None:
        drained = dict.fromkeys(now.draining, now.running)
        return {worker: revoked & drained.get(worker, revoked) - now.tried for worker, revoked in now.revoked.items()}
    ready, learns = all_of(now.lessons.ready), frozenset[TaskId]().union(*now.lessons.learns.values())
    return {
        worker: revoked - ready - (learns - now.running) - now.tried
        for worker, revoked in now.revoked.items()
        if worker in now.staying
    }


def _believes_rightly(owner: Process, task: TaskId) -> bool:
    return owner.state.last_completed == owner.state.generation and task not in owner.state.stopping


def _downgrades(now: Round) -> bool:
    """An eager round that assigns nothing, because the round before it may have been cooperative."""
    last = now.last
    follows = last is not None and last.generation == now.seen.generation - 1 and not last.protocol.cooperative
    return not follows and not any(now.assigned.values())


def all_of(shares: Mapping[WorkerId, Tasks]) -> Tasks:
    """The tasks of all workers."""
    return NO_TASKS.union(*shares.values())


def names(tasks: Collection[TaskId]) -> str:
    """The tasks for an error's text."""
    return ", ".join(map(str, sorted(tasks)))


def _word(word: TaskWord) -> str:
    status = word.status
    return f"{status.worker}'s {status.task} {status.state.value} (start {word.start}, epoch {status.epoch})"
