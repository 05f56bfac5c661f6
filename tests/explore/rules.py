"""What must hold in each world and at each step. Rounds are checked with the simulation's rules.

One limit is known (docs/protocol.md, "What is not"): a process that takes the name of one that still runs reports that
one's tasks from the group record. If it had not yet read the record of the last round, the older process is *unspoken
for*: until its lease is over, it may run tasks that others start. Nothing else is excused.
"""

from __future__ import annotations

from itertools import combinations

from explore.group import Group, GroupState
from explore.normal import World
from explore.process import Reaction, may_write, runs
from explore.values import NOW, Process, Scope, Start, Sync, Topics
from simulation import invariants, learner_invariants
from simulation.group import RoundSeen
from simulation.rounds import Computed, read_round

from airflow_provider.assignment.learners.model import DEFAULT_LIMITS
from airflow_provider.group.classic.member.state import Phase
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.machine.events import StopTasks
from airflow_provider.values.model import NO_TASKS, SubProtocol, TaskId


class BrokenError(AssertionError):
    """A rule does not hold.

    :param rule: its name
    """

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


TWO_RUN = "no two copies run at once"
FENCE = "a fence raises for every holder but the last"
TWO_OWN = "no two current members own a task"
STARTED = "a task is started only after it was stopped or its lease was over"
HIGHER = "a task goes to another worker with a higher epoch"
GROW = "epochs only grow"
OWN_EPOCH = "each round has an epoch of its own"
UNTOUCHED = "a member untouched by faults stops only what is revoked"
FAILED = "no membership fails"
REST = "without faults the group comes to rest, with each task running once, spread evenly"


def kind_of(broken: BaseException) -> str:
    """The kind of failure: the broken rule, else the exception."""
    if isinstance(broken, BrokenError):
        return broken.rule
    return broken.invariant if isinstance(broken, invariants.BrokenError) else type(broken).__name__


def check_world(world: World) -> None:
    """At every moment."""
    for node in world.processes:
        if node.value.state.phase is Phase.FAILED:
            raise BrokenError(FAILED, node.value.mark)
    if len(world.processes) < 2:
        return
    key = ("checked", world.group, *world.processes)
    checked = world.processes[0].made
    if key not in checked:
        for one, other in combinations([node.value for node in world.processes], 2):
            for task in one.tasks & other.tasks:
                _check_task(task, one, other)
            _check_owners(world.group.value, one, other)
        checked[key] = None


def _check_task(task: TaskId, *holders: Process) -> None:
    if any(holder.unspoken_for for holder in holders):
        return
    copies = [(holder, attempt) for holder in holders for attempt in holder.running if attempt.task == task]
    if all(runs(holder, attempt) for holder, attempt in copies):
        raise BrokenError(TWO_RUN, f"{task} runs in {' and in '.join(holder.mark for holder in holders)}")
    for holder, attempt in copies:
        if attempt.followed and may_write(holder, attempt):
            raise BrokenError(FENCE, f"{task} may still write in {holder.mark}")


def _check_owners(group: Group, one: Process, other: Process) -> None:
    if one.unspoken_for or other.unspoken_for:
        return
    for task in one.state.owned & other.state.owned:
        if all(_is_current(group, each) and _believes_rightly(each, task) for each in (one, other)):
            raise BrokenError(TWO_OWN, f"{task} is owned by {one.mark} and {other.mark}")


def _is_current(group: Group, process: Process) -> bool:
    state = process.state
    return state.generation == group.generation and group.with_id(state.member_id) is not None


def _believes_rightly(process: Process, task: TaskId) -> bool:
    state = process.state
    return task in process.tasks or (state.last_completed == state.generation and task not in state.stopping)


# ---- steps


def check_reaction(before: Process, reaction: Reaction) -> None:
    was, now = before.state.epoch, reaction.process.state.epoch
    if now < was:
        raise BrokenError(GROW, f"{before.mark} goes from epoch {was} back to {now}")


def check_untouched(reaction: Reaction) -> None:
    """Checked as long as no fault has struck."""
    for command in reaction.commands:
        if isinstance(command, StopTasks) and command.reason not in (StopReason.REVOKED, StopReason.LEARNED):
            tasks = ", ".join(map(str, sorted(command.tasks)))
            raise BrokenError(UNTOUCHED, f"{reaction.process.mark} stops {tasks}: {command.reason.value}")


def check_start(world: World, process: Process, start: Start) -> None:
    if process.unspoken_for:
        return
    for node in world.processes:
        other: Process = node.value
        until = other.state.lease_until
        if other.mark == process.mark or start.task not in other.tasks or other.unspoken_for:
            continue
        if until is not None and until > NOW:
            raise BrokenError(
                STARTED,
                f"{process.mark} starts {start.task}, which {other.mark} runs with {until - NOW} ms of its lease left",
            )
    topics: Topics = world.topics.value
    last = next((each for each in topics.starts if each.task == start.task), None)
    if last is None or topics.record is None:
        return
    if start.epoch < last.epoch or (start.epoch == last.epoch and start.worker != last.worker):
        raise BrokenError(
            HIGHER,
            f"{process.mark} starts {start.task} in epoch {start.epoch}, after {last.worker} did in {last.epoch}",
        )


def check_round(world: World, sync: Sync, scope: Scope) -> None:
    """The coordinator accepts a leader's assignment."""
    group: Group = world.group.value
    record, last, stored = sync.record, sync.last, world.topics.value.stored
    assert record is not None
    follows = stored is not None and last is not None and last.is_round(stored.generation, stored.leader_member)
    if stored is not None and follows and record.epoch <= stored.epoch:
        raise BrokenError(OWN_EPOCH, f"generation {group.generation} is epoch {record.epoch}, after {stored.epoch}")
    seen = RoundSeen(
        generation=group.generation,
        protocol=SubProtocol(group.protocol),
        leader=record.leader,
        leader_member=record.leader_member,
        joined={member.worker: dict(member.protocols)[group.protocol] for member in group.members},
        sent={member.worker: sync.command.assignments.get(member.member_id, b"") for member in group.members},
        at_ms=NOW,
    )
    configured, said = scope.configured, sync.said
    now = read_round(
        seen,
        Computed(
            record,
            configured,
            configured,
            NO_TASKS,
            last,
            stateful=scope.stateful,
            running=said.started,
            ready=said.ready_as({member.worker: member.member_id for member in group.members}),
        ),
    )
    invariants.nothing_is_assigned_and_revoked_in_one_round(now)
    invariants.the_target_is_complete_and_without_duplicates(now)
    invariants.nothing_is_revoked_for_balance_while_a_delay_runs(now)
    invariants.only_the_surplus_moves(now)
    invariants.a_returning_worker_has_its_own_tasks(now)
    learner_invariants.check_round(None, now, DEFAULT_LIMITS.longest_ms)


# ---- rest


def at_rest(world: World, scope: Scope) -> bool:
    """Whether each task runs once, evenly spread, and nothing under way will change that. A group without processes is
    at rest when the coordinator has noticed.
    """
    group: Group = world.group.value
    processes: list[Process] = [node.value for node in world.processes]
    if not processes:
        return group.state is GroupState.EMPTY
    if group.state is not GroupState.STABLE or len(group.members) != len(processes):
        return False
    for process in processes:
        state = process.state
        if process.paused or state.phase is not Phase.STABLE or state.stopping or state.rejoin_at is not None:
            return False
        if state.lessons.learning or state.lessons.learned:
            return False
    running = [task for process in processes for task in process.tasks]
    shares = [len(process.tasks) for process in processes]
    return sorted(running) == sorted(scope.configured) and max(shares) - min(shares) <= 1
