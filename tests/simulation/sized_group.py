"""A group of streams that differ in the slots that they take, and its workers as they start what they are assigned."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from airflow_provider.assignment.cooperative_assignor import assign
from airflow_provider.assignment.costs import Costs
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.policy import IMMEDIATE
from airflow_provider.assignment.shares import grouped
from airflow_provider.values.model import NO_TASKS, GenerationId, TaskId, Tasks, WorkerId

Places = Mapping[TaskId, WorkerId]


class SizedGroup:
    """No worker starts a stream before one that came first; one that wants more slots than others leave gets those.

    :param slots: of each worker
    :param sizes: how many slots each stream wants
    :ivar running: the slots that each running stream has, by worker
    :ivar stopped: the running streams that rounds have stopped, once for each time
    """

    def __init__(self, slots: Mapping[WorkerId, int], sizes: Mapping[TaskId, int]) -> None:
        self.slots = dict(slots)
        self.sizes = dict(sizes)
        self.wanted = frozenset(sizes)
        self.owned: dict[WorkerId, Tasks] = dict.fromkeys(slots, NO_TASKS)
        self.running: dict[WorkerId, dict[TaskId, int]] = {}
        self.draining: frozenset[WorkerId] = frozenset()
        self.stopped: list[TaskId] = []
        self._memory = Memory()
        self._generation = 0

    def joins(self, worker: WorkerId, slots: int) -> None:
        """Also: it returns, and has forgotten what it had."""
        self.slots[worker], self.owned[worker], self.running[worker] = slots, NO_TASKS, {}

    def leaves(self, worker: WorkerId) -> None:
        del self.owned[worker], self.running[worker]

    @property
    def places(self) -> Places:
        """Where each running stream runs."""
        return {task: worker for worker, running in self.running.items() for task in running}

    @property
    def staying(self) -> list[WorkerId]:
        return [worker for worker in self.owned if worker not in self.draining]

    @property
    def waits_beside_room(self) -> bool:
        """Whether a stream waits although another worker could start it. What a running one wants is not free, even if
        it has less.
        """
        waiting = {worker for worker in self.staying if len(self.owned[worker]) > len(self.running[worker])}
        return any(self.wants(worker) < self.slots[worker] and waiting - {worker} for worker in self.staying)

    def wants(self, worker: WorkerId) -> int:
        """How many slots its streams want. None wants more than the largest worker has."""
        most = max(self.slots[name] for name in self.owned)
        return sum(min(most, self.sizes[task]) for task in self.owned[worker])

    def load(self, places: Places) -> Fraction:
        """The largest load of a worker for its slots. One that has fewer slots than a stream wants gives it all."""
        wanted = dict.fromkeys(self.owned, 0)
        for task, worker in places.items():
            wanted[worker] += min(self.sizes[task], self.slots[worker])
        return max(Fraction(number, self.slots[worker]) for worker, number in wanted.items())

    def settle(self) -> None:
        """Rebalance until nothing changes, as leaders do: also to fill free slots."""
        for _ in range(12):
            if not self._round() and not (self.waits_beside_room and self._round(stays=frozenset(self.places))):
                return
        raise AssertionError(f"it does not come to rest: {self}")

    def __str__(self) -> str:
        return f"{self.slots}, {self.sizes}: {self.owned}, of which run {self.running}"

    def _round(self, stays: Tasks = NO_TASKS) -> bool:
        self._generation += 1
        running = frozenset(self.places)
        outcome = assign(
            Round(
                now_ms=1,
                generation=GenerationId(self._generation),
                last_completed=GenerationId(self._generation - 1),
                configured=self.wanted,
                owned=dict(self.owned),
                revocation_rank=dict.fromkeys(running, 1),
                named=frozenset(self.owned),
                draining=self.draining,
                stays=stays,
                costs=Costs(
                    slots={worker: self.slots[worker] for worker in self.owned},
                    large=grouped((task, size) for task, size in self.sizes.items() if size > 1),
                ),
            ),
            self._memory,
            policy=IMMEDIATE,
        )
        self._memory, self.owned = outcome.memory, dict(outcome.target)
        self.stopped += NO_TASKS.union(*outcome.revoked.values()) & running & self.wanted
        self._run()
        return any(outcome.assigned.values()) or any(outcome.revoked.values())

    def _run(self) -> None:
        for worker, tasks in self.owned.items():
            before = self.running.get(worker, {})
            now = self.running[worker] = {task: before[task] for task in sorted(tasks & before.keys())}
            for task in sorted(tasks - before.keys()) if worker not in self.draining else ():
                left = self.slots[worker] - sum(now.values())
                if left <= 0:
                    break
                now[task] = min(self.sizes[task], left)
