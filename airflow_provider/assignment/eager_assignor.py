"""The eager assignment: all tasks are dealt out again in every round.

Members of a group that uses the eager protocol (v0) stop everything before they join, so there is nothing to remember
or to revoke.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import cycle

from airflow_provider.assignment.balancing.by_cost import CostPool
from airflow_provider.assignment.balancing.dealing import deal_seats
from airflow_provider.assignment.balancing.portions import portions
from airflow_provider.assignment.costs import NO_COSTS, Costs, slots_for
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks, WorkerId


def assign(members: Collection[WorkerId], configured: Tasks, costs: Costs = NO_COSTS) -> Mapping[WorkerId, Tasks]:
    """Deal out all planners, then all tasks, round robin over the members in the order of their names.

    The tasks continue where the planners ended: if they were dealt job by job, two workers and jobs with a single task
    would put every planner on one worker and every task on the other. To members that differ in their slots, tasks are
    dealt in proportion to these. Tasks that differ in cost are shared out by cost.

    :return: what each member runs, with an entry for every member
    :raises ValueError: for a group without members
    """
    if not members:
        raise ValueError("a round of assignment needs at least one member")
    hands: dict[WorkerId, list[TaskId]] = {member: [] for member in sorted(members)}
    by_cost = costs.among(configured)
    by_number = configured - by_cost
    tasks = frozenset([task for task in by_number if not task.is_planner])
    may_have = portions(len(tasks), hands, costs.slots, costs.stands_for)
    in_turn = by_number if may_have.equal else by_number - tasks
    planners_first = sorted(in_turn, key=lambda task: (not task.is_planner, task))
    in_order = [member for member in hands for _ in range(costs.stands_for.get(member, 1))]
    for member, task in zip(cycle(in_order), planners_first):  # not strict: cycle() is endless
        hands[member].append(task)
    if not may_have.equal:
        seats = may_have.seats(dict.fromkeys(hands, 0), len(tasks))
        for member, given in deal_seats(tasks, seats, {}).items():
            hands[member] += given
    streams = {member: frozenset(task for task in hand if not task.is_planner) for member, hand in hands.items()}
    costs = costs.beside({member: slots_for(tasks, costs.large) for member, tasks in streams.items()})
    for member, more in CostPool(dict.fromkeys(hands, NO_TASKS), {}, by_cost, costs).place(by_cost).items():
        hands[member] += more
    return {member: frozenset(hand) for member, hand in hands.items()}
