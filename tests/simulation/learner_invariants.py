"""Further rules where tasks are learned before they move, each a function whose docstring states it.

They use what goes over the wire: what members report that they own, learn and are ready for, and what they are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from simulation.invariants import Broken, all_of, invariant, names
from simulation.rounds import Lessons, Round
from simulation.shares import by_slots, kept_by_draining

from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.world import World


def check_round(before: Round | None, now: Round, longest_ms: int) -> None:
    """Check all rules about a round.

    :param longest_ms: how long a learner may take
    """
    if now.lessons is None:
        return
    learner_tasks_are_configured_and_stateful(now, now.lessons)
    nothing_learned_is_owned_twice(now, now.lessons)
    owners_know_what_others_learn(now, now.lessons)
    a_lost_owner_whose_learner_is_ready_is_replaced_at_once(now, now.lessons)
    half_warm_goes_before_cold(now, now.lessons)
    a_stateful_task_is_stopped_only_for_a_ready_learner(now, now.lessons)
    a_leaving_worker_gets_nothing_new(now, now.lessons)
    a_leaving_worker_finishes_its_batch_tasks(now, now.lessons)
    a_failed_learner_gives_up_its_place(now, now.lessons)
    nobody_starts_over(now, now.lessons, longest_ms)
    if before is not None and before.lessons is not None and now.follows(before):
        a_task_stopped_for_a_learner_goes_to_it_or_back(before.lessons, now, now.lessons, longest_ms)


def check_at_rest(world: World) -> None:
    """Check all rules about a group at rest."""
    nothing_is_learned_at_rest({process.name: process.tasks.learning for process in world.members})
    if world.coordinator.learns and not world.status.given_up:
        jobs = world.jobs.newest.stateful
        held = {process.name: process.tasks.held for process in world.members}
        stateful_tasks_are_shared_out_by_slots_too(
            {name: sum(task.job in jobs and not task.is_planner for task in tasks) for name, tasks in held.items()},
            {process.name: process.slots for process in world.members},
        )


# ---- a round


@invariant
def learner_tasks_are_configured_and_stateful(now: Round, lessons: Lessons) -> None:
    """No member learns a task that is not configured, or that has nothing to warm up."""
    for worker, learning in lessons.learning.items():
        needless = [task for task in learning if task not in now.configured or not now.has_state(task)]
        if needless:
            raise Broken(f"epoch {now.record.epoch} has {worker} learn {names(needless)}")


@invariant
def nothing_learned_is_owned_twice(now: Round, lessons: Lessons) -> None:
    """A learner task has one learner, which stays in the group and is not its owner; and at most one owner."""
    learned = [task for learning in lessons.learning.values() for task in learning]
    if len(set(learned)) != len(learned):
        raise Broken(f"epoch {now.record.epoch} has something learned by two: {dict(lessons.learning)}")
    for worker, learning in lessons.learning.items():
        if learning & now.target[worker]:
            raise Broken(f"epoch {now.record.epoch} has {worker} learn {names(learning & now.target[worker])}, its own")
        if learning and worker not in now.staying:
            raise Broken(f"epoch {now.record.epoch} has {worker} learn {names(learning)}, though it does not stay")
    owners = [task for target in now.target.values() for task in target if task in set(learned)]
    if len(set(owners)) != len(owners):
        raise Broken(f"epoch {now.record.epoch} gives something that is learned to two")


@invariant
def owners_know_what_others_learn(now: Round, lessons: Lessons) -> None:
    """An owner is told exactly which of its tasks others learn."""
    learning = all_of(lessons.learning)
    for worker, learned in lessons.learned.items():
        if learned != now.target[worker] & learning:
            raise Broken(f"epoch {now.record.epoch} tells {worker} of {names(learned)}, of {names(learning)}")


@invariant
def a_lost_owner_whose_learner_is_ready_is_replaced_at_once(now: Round, lessons: Lessons) -> None:
    """A task without an owner goes to a ready learner in that same round, whatever delay runs."""
    for task, learners in _unowned(now, lessons):
        ready = [worker for worker in learners if task in lessons.ready[worker]]
        if ready and not any(task in now.target[worker] for worker in ready):
            raise Broken(
                f"epoch {now.record.epoch} does not give {task} to {' or '.join(ready)}, which is ready for it"
            )


@invariant
def half_warm_goes_before_cold(now: Round, lessons: Lessons) -> None:
    """A task without an owner that no longer waits goes to the learner with the most progress, or back to its former
    owner.
    """
    for task, learners in _unowned(now, lessons):
        learners = [worker for worker in learners if task not in lessons.failed[worker]]
        furthest = lessons.furthest(task, learners)
        cold = [
            worker
            for worker, target in now.target.items()
            if learners and task in target and worker not in furthest and not _had(worker, task, now)
        ]
        if cold:
            raise Broken(f"epoch {now.record.epoch} gives {task} to {cold[0]}, not to {', '.join(furthest)}")


@invariant
def a_stateful_task_is_stopped_only_for_a_ready_learner(now: Round, lessons: Lessons) -> None:
    """A running task with state is only stopped for balance if a learner of this round is ready for it. Only a leaving
    worker stops it for a learner that takes too long. So a learner that dies, is slow or fails costs nothing.
    """
    for worker, revoked in now.revoked.items():
        stopped = revoked & now.owned[worker] & now.configured & now.running - now.duplicated
        for task in filter(now.has_state, stopped):
            learners = [other for other in now.staying if task in lessons.learns[other]]
            ready = any(task in lessons.ready[learner] for learner in learners)
            if not ready and not (learners and worker in lessons.leaving):
                raise Broken(f"epoch {now.record.epoch} has {worker} stop {task}, and nobody is ready for it")


@invariant
def a_leaving_worker_gets_nothing_new(now: Round, lessons: Lessons) -> None:
    """A member that wants to leave is given no new tasks as long as another one stays. It may leave once it has no
    tasks, and not before.
    """
    for worker in lessons.leaving if now.staying - lessons.leaving else ():
        new = [task for task in now.target[worker] - now.owned[worker] if not _had(worker, task, now)]
        if new:
            raise Broken(f"epoch {now.record.epoch} gives {names(new)} to {worker}, which leaves soon")
    for worker in lessons.shutdown:
        if worker not in lessons.leaving or now.target[worker]:
            raise Broken(f"epoch {now.record.epoch} has {worker} leave with {names(now.target[worker])}")


@invariant
def a_leaving_worker_finishes_its_batch_tasks(now: Round, lessons: Lessons) -> None:
    """A batch task that runs on a worker that leaves soon is not stopped, and nobody begins to learn it. It moves only
    if somebody had begun to learn it before.
    """
    began = frozenset(task for learns in lessons.learns.values() for task in learns)
    finishing = now.finishing & now.configured - now.duplicated - began
    stopped = finishing & all_of(now.revoked)
    learned = finishing & all_of(lessons.learning)
    if stopped or learned:
        raise Broken(f"epoch {now.record.epoch}: {names(stopped | learned)} should finish on workers that leave")


@invariant
def a_failed_learner_gives_up_its_place(now: Round, lessons: Lessons) -> None:
    """A member does not go on learning a task that it failed to make ready, so that it can learn another one. Only if
    the owner leaves, or has not started the task, it moves there anyway.
    """
    for worker, failed in lessons.failed.items():
        for task in failed & lessons.learning[worker]:
            owners = frozenset(owner for owner, has in now.owned.items() if task in has)
            if not (owners & lessons.leaving or (owners and task not in now.running)):
                raise Broken(f"epoch {now.record.epoch} has {worker} learn {task}, at which it has failed")


# ---- a round and the one before


@invariant
def a_task_stopped_for_a_learner_goes_to_it_or_back(
    told: Lessons, now: Round, lessons: Lessons, longest_ms: int
) -> None:
    """A task that its owner stopped before it joined goes to a ready learner or back to the owner; if the owner leaves,
    also to a learner that has failed or taken too long. It never waits.

    :param longest_ms: how long a learner may take
    """
    owned = all_of(now.owned)
    for owner in now.owned.keys() & told.learned.keys():
        for task in (told.learned[owner] & now.throughout) - owned:
            able = [worker for worker in now.staying if task in lessons.ready[worker]]
            if owner in lessons.leaving:
                in_vain = {worker: lessons.failed[worker] | _overdue(worker, now, longest_ms) for worker in now.staying}
                able += [worker for worker in now.staying if task in lessons.learns[worker].keys() & in_vain[worker]]
            if not any(task in now.target[worker] for worker in (owner, *able)):
                raise Broken(f"epoch {now.record.epoch} keeps {task} from {owner}, which has stopped it for a learner")


@invariant
def nobody_starts_over(now: Round, lessons: Lessons, longest_ms: int) -> None:
    """A lesson goes on, or its task moves to the learner. It only ends otherwise if the owner has room for the task and
    the learner has not, if it has failed or taken too long, or if another learner has come as far. What draining
    workers keep, and nobody has learned, is in nobody's share.

    :param longest_ms: how long a learner may take
    """
    learned = frozenset(task for worker in now.staying for task in lessons.learns[worker])
    spread = now.configured - (kept_by_draining(now) - learned)
    if not now.staying:
        return
    share = by_slots(now, sum(map(now.has_state, spread)))
    for worker in sorted(now.staying):
        in_vain = lessons.failed[worker] | (_overdue(worker, now, longest_ms) - lessons.ready[worker])
        ended = (lessons.learns[worker].keys() & now.configured) - in_vain
        for task in sorted(ended - lessons.learning[worker] - now.target[worker] - now.owned[worker]):
            able = [other for other in now.staying if task not in lessons.failed[other]]
            if not now.has_state(task) or lessons.furthest(task, able) != {worker}:
                continue
            full = sum(map(now.has_state, now.target[worker])) + _to_come(worker, lessons) >= share(worker)
            owners = [owner for owner in now.staying if task in now.target[owner]]
            room = any(_keeps(owner, task, now, lessons) < share(owner) for owner in owners)
            if not (full and room):
                raise Broken(f"epoch {now.record.epoch} has {worker} learn {task} no more, though it could move there")


# ---- at every moment, and at rest


@invariant
def only_learned_tasks_are_stopped_before_a_round(process: Process, tasks: Tasks, told: Round | None) -> None:
    """Before it joins, an owner only stops for others the tasks that they learn, as it was told; under the rule
    ``when-ready``, only those for which it has read that a learner is ready.

    :param told: the round of its assignment
    """
    if told is not None and told.lessons is not None:
        extra = tasks - told.lessons.learned.get(process.worker, NO_TASKS)
        if extra:
            raise Broken(f"{process.name} stops {names(extra)} for others, which nobody learns")
    if process.settings.learned is LearnedRule.WHEN_READY:
        said = [lesson for worker in process.status.workers.values() for lesson in worker.learning]
        early = tasks - {lesson.task for lesson in said if lesson.ready}
        if early:
            raise Broken(f"{process.name} stops {names(early)} for others, and nobody has said that it is ready")


@invariant
def nothing_is_learned_at_rest(shares: Mapping[str, Iterable[TaskId]]) -> None:
    """In a group at rest, no member learns a task or keeps one ready."""
    for worker, learners in shares.items():
        if learners:
            raise Broken(f"{worker} makes ready {names(frozenset(learners))}")


@invariant
def stateful_tasks_are_shared_out_by_slots_too(counts: Mapping[str, int], slots: Mapping[str, int]) -> None:
    """In a group at rest, each member has the whole part of its quota of the stateful tasks, or one more."""
    total, together = sum(counts.values()), sum(slots.values())
    if not {count - total * slots[worker] // together for worker, count in counts.items()} <= {0, 1}:
        raise Broken(f"{counts} with {dict(slots)}")


def _unowned(now: Round, lessons: Lessons) -> list[tuple[TaskId, list[WorkerId]]]:
    """The stateful tasks without an owner, with their learners that stay."""
    owned = all_of(now.owned)
    learned = frozenset(task for learns in lessons.learns.values() for task in learns) & now.configured - owned
    return [
        (task, [worker for worker in sorted(now.staying) if task in lessons.learns[worker]])
        for task in sorted(learned)
        if now.has_state(task)
    ]


def _overdue(worker: WorkerId, now: Round, longest_ms: int) -> Tasks:
    """The tasks that the worker has learned for too long, by the last leader's memory."""
    memory = None if now.last is None else now.last.learner_memory
    since = {} if memory is None else memory.since_ms.get(worker, {})
    return frozenset(task for task, since_ms in since.items() if now.record.at_ms - since_ms >= longest_ms)


def _to_come(worker: WorkerId, lessons: Lessons) -> int:
    return len(lessons.learning[worker]) - len(lessons.learned[worker])


def _keeps(owner: WorkerId, task: TaskId, now: Round, lessons: Lessons) -> int:
    """How many other stateful tasks the owner keeps that nobody learns."""
    kept = now.target[owner] & now.owned[owner] - lessons.learned[owner] - {task}
    return sum(map(now.has_state, kept))


def _had(worker: WorkerId, task: TaskId, now: Round) -> bool:
    """Whether it was the worker's, by the last leader's memory."""
    last = now.last
    if last is None:
        return False
    shares = [last.memory.assignment, last.memory.former]
    if last.learner_memory is not None:
        shares += [last.learner_memory.learned, last.learner_memory.learned_before]
    return any(task in share.get(worker, NO_TASKS) for share in shares)
