"""Workers that drain: they run what they run to its end, start nothing, and leave.

So they get nothing, and what waits there goes to others: nobody runs it, so that stops nothing. Where all drain, each
is treated as any other: the work has to be somebody's until others come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.assignors.model import Load, Round
from airflow_provider.assignors.shares import Shares, minus
from airflow_provider.protocol.model import NO_TASKS, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """The members of a round that drain.

    :param runs: by worker what it goes on with
    :param waits: by worker what waits there, and goes to others
    """

    runs: Shares
    waits: Shares

    @property
    def kept(self) -> Tasks:
        """What all of them go on with."""
        return NO_TASKS.union(*self.runs.values())

    def without(self, tasks: Tasks) -> Draining:
        """The same, but for tasks that are to go on elsewhere."""
        return Draining(runs={worker: minus(share, tasks) for worker, share in self.runs.items()}, waits=self.waits)

    def others(self, shares: Shares) -> Shares:
        """The shares of those that don't drain."""
        return {worker: tasks for worker, tasks in shares.items() if worker not in self.runs}

    def over(self, planners: Tasks) -> tuple[Mapping[WorkerId, Load], Mapping[WorkerId, Load]]:
        """How many planners, and how many tasks, each has that gives something up."""
        kinds = [(worker, tasks & planners, tasks - planners) for worker, tasks in self.waits.items()]
        of_planners = {worker: _load(self.runs[worker] & planners, waits) for worker, waits, _ in kinds if waits}
        of_tasks = {worker: _load(self.runs[worker] - planners, waits) for worker, _, waits in kinds if waits}
        return of_planners, of_tasks


def draining(round: Round, kept: Shares) -> Draining:  # noqa: A002  # it is KIP-415's word
    """:param kept: every member and what it keeps"""
    workers = round.draining & kept.keys()
    if len(workers) == len(kept):
        return Draining(runs={}, waits={})
    waits = {worker: kept[worker] - round.revocation_rank.keys() for worker in workers}
    return Draining(
        runs={worker: minus(kept[worker], tasks) for worker, tasks in waits.items()},
        waits={worker: tasks for worker, tasks in waits.items() if tasks},
    )


def _load(runs: Tasks, waits: Tasks) -> Load:
    return Load(has=len(runs) + len(waits), share=len(runs))
