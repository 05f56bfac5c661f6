"""Tasks that have failed where they were, and that the round places on another worker, whatever the shares are.

The leader knows from the records of the tasks where each of them should go. Here it is only done: the worker that has
such a task gives it up, as a draining one gives up what waits there, and the named worker gets it when nobody has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from airflow_provider.assignment.model import Round
from airflow_provider.assignment.shares import Shares, all_of, grouped, minus
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What a round places elsewhere.

    :param taken: what members give up for that, by member
    :param places: all that goes elsewhere, by the member that gets it
    """

    taken: Shares = field(default_factory=dict)
    places: Shares = field(default_factory=dict)

    @property
    def tasks(self) -> Tasks:
        return all_of(self.places)

    @property
    def at_once(self) -> Shares:
        """What members get now, since nobody has it."""
        had = all_of(self.taken)
        return {worker: minus(tasks, had) for worker, tasks in self.places.items()}

    def left_of(self, shares: Shares) -> Shares:
        """The shares without what is taken."""
        if not self.taken:
            return shares
        return {worker: minus(tasks, self.taken.get(worker, NO_TASKS)) for worker, tasks in shares.items()}


def elsewhere(round: Round, kept: Shares, unowned: Iterable[TaskId]) -> Elsewhere:  # noqa: A002  # KIP-415's term
    """Find what goes elsewhere. A member that is not in the round, or that drains, gets nothing.

    :param kept: what each member keeps of what it owned
    :param unowned: what nobody has
    """
    better = {
        task: worker for task, worker in round.tried.places.items() if worker in kept and worker not in round.draining
    }
    if not better:
        return Elsewhere()
    taken = {
        worker: gone
        for worker, tasks in kept.items()
        if (gone := frozenset([task for task in tasks & better.keys() if better[task] != worker]))
    }
    going = NO_TASKS.union(*taken.values(), better.keys() & frozenset(unowned))
    return Elsewhere(taken=taken, places=grouped((task, better[task]) for task in going))
