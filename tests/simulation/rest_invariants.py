"""The rules of a group in which the faults have stopped."""

from __future__ import annotations

from collections.abc import Container, Mapping

from simulation.invariants import Broken, invariant

from airflow_provider.values.model import Tasks


@invariant
def everything_converges(*, settled: bool, within: int) -> None:
    """After the faults stop, the group comes to rest in a bounded number of rounds, with every task running once."""
    if not settled:
        raise Broken(f"the group did not come to rest in time and within {within} rounds")


@invariant
def the_spread_is_at_most_one(
    shares: Mapping[str, Tasks], slots: Mapping[str, int], stay: Container[str] = (), full: Container[str] = ()
) -> None:
    """In a group at rest, each member has the whole part of its quota, or one more: of planners, whose quotas are
    equal, and of tasks, whose quotas are in proportion to the slots. Some tasks stay where they are, by a rule of their
    own: then nothing else could make it more even.

    :param stay: the jobs of these tasks
    :param full: members that have tasks by cost in all their slots: others may have their part of the other tasks
    """
    for kind, weights in ((True, dict.fromkeys(slots, 1)), (False, slots)):
        of_kind = {worker: [task for task in share if task.is_planner is kind] for worker, share in shares.items()}
        total, together = sum(map(len, of_kind.values())), sum(weights.values())
        above = {worker: len(tasks) - total * weights[worker] // together for worker, tasks in of_kind.items()}
        can_give = [
            above[worker] for worker, tasks in of_kind.items() if any(kind or task.job not in stay for task in tasks)
        ]
        can_take = [each for worker, each in above.items() if kind or worker not in full]
        if max(can_give, default=0) - min(can_take, default=0) > 1:
            counts = {worker: len(tasks) for worker, tasks in of_kind.items()}
            raise Broken(f"{'planners' if kind else 'tasks'}: {counts} with {dict(weights)}")
