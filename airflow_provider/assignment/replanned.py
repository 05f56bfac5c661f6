"""Jobs that are planned again: while there is no plan their tasks are not configured, and their owners are remembered.

A job whose definition has changed has no plan until its planner has run, which takes a round. Without this memory, the
tasks of the new plan would be dealt out as if nobody had ever had them.
"""

from __future__ import annotations

from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.shares import Shares, grouped
from airflow_provider.values.model import TaskId, Tasks, WorkerId, planner_of


def still_planned(round: Round, memory: Memory, removed: Tasks) -> Shares:  # noqa: A002  # KIP-415's term
    """The tasks that are not configured while their job's planner is, by the worker that had them last, present or not.

    A leader remembers this for the round that has the new plan. It makes no difference whether the last round reached
    the members: this only says where tasks should preferably go, and nothing waits for it.

    :param removed: what is owned but not configured
    """
    had: dict[TaskId, WorkerId] = {}
    for shares in (memory.former, memory.assignment):
        for worker, tasks in shares.items():
            if tasks is not round.owned.get(worker) and not tasks <= round.configured:
                had.update(dict.fromkeys(tasks - round.configured, worker))
    for worker, tasks in round.owned.items() if removed else ():
        had.update(dict.fromkeys(tasks & removed, worker))
    return grouped(way for way in had.items() if planner_of(way[0].job) in round.configured)


def planned_again(created: Tasks, round: Round, memory: Memory) -> Shares:  # noqa: A002
    """The created tasks that a member had before their job was planned again, by member.

    Only a member that keeps its name is known to be the same.
    """
    if not created:
        return {}
    here = round.named & round.owned.keys()
    return {worker: again for worker, had in memory.former.items() if worker in here and (again := had & created)}
