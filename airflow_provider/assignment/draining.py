"""Workers that drain: they finish what they run, start nothing, and leave.

So they get nothing, and what has not started there goes to others, which stops nothing. If all workers drain, each is
treated like any other: the work has to belong to somebody until other workers join.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.assignment.model import Load, Round
from airflow_provider.assignment.shares import Shares, merged, minus, plus
from airflow_provider.values.model import NO_TASKS, Tasks, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """The draining members of a round, and those that leave soon while they finish something.

    :param runs: what each of them runs and keeps
    :param waits: what has not started there and goes to others, by worker
    """

    runs: Shares
    waits: Shares

    @property
    def kept(self) -> Tasks:
        """What all of them keep."""
        return NO_TASKS.union(*self.runs.values())

    def without(self, tasks: Tasks) -> Draining:
        """A copy without tasks that are to run elsewhere."""
        return Draining(runs={worker: minus(share, tasks) for worker, share in self.runs.items()}, waits=self.waits)

    def with_more(self, back: Shares) -> Draining:
        """A copy in which they also keep what they get back.

        :param back: what members get back, draining or not
        """
        more = {worker: plus(share, back.get(worker, NO_TASKS)) for worker, share in self.runs.items()}
        return Draining(runs=more, waits=self.waits)

    def with_finishing(self, finished: Shares) -> Draining:
        """A copy with workers that finish these tasks without draining otherwise: members that leave soon."""
        more = {worker: tasks for worker, tasks in finished.items() if tasks}
        return Draining(runs=merged((self.runs, more)), waits=self.waits) if more else self

    def others(self, shares: Shares) -> Shares:
        """The shares of the other workers."""
        return {worker: tasks for worker, tasks in shares.items() if worker not in self.runs}

    def over(self, planners: Tasks) -> tuple[Mapping[WorkerId, Load], Mapping[WorkerId, Load]]:
        """The loads of planners, and of tasks, of the workers that give some of them up."""
        kinds = [(worker, tasks & planners, tasks - planners) for worker, tasks in self.waits.items()]
        of_planners = {worker: _load(self.runs[worker] & planners, waits) for worker, waits, _ in kinds if waits}
        of_tasks = {worker: _load(self.runs[worker] - planners, waits) for worker, _, waits in kinds if waits}
        return of_planners, of_tasks


def draining(round: Round, kept: Shares) -> Draining:  # noqa: A002  # it is KIP-415's word
    """Find out which of the members drain, and what they keep.

    :param kept: what each member keeps, as far as it is decided
    """
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
