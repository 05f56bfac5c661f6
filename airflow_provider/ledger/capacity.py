"""Whether a group has a slot for each task that never ends: one that has none waits for ever. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.progress import configured
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.records import TaskKind, WorkerPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotShortage:
    """More tasks without end than slots.

    :param unbounded: how many tasks of streaming jobs are to run
    :param slots: how many tasks all workers together run at the same time
    """

    unbounded: int
    slots: int

    def in_words(self) -> str:
        """For people: what it means, and what to do."""
        left = self.unbounded - self.slots
        waits = "1 of them waits" if left == 1 else f"{left} of them wait"
        slots = "1 slot" if self.slots == 1 else f"{self.slots} slots"
        return f"{self.unbounded} unbounded tasks, {slots}: {waits} for ever; add workers, or give them more slots"

    def to_json(self) -> dict[str, int]:
        return {"unbounded": self.unbounded, "slots": self.slots}


def slot_shortage(jobs: JobsSnapshot, status: StatusSnapshot) -> SlotShortage | None:
    """What is missing; None: nothing, or it isn't known, because there is a member that has not said what it has."""
    unbounded = _unbounded_tasks(jobs, status)
    members = status.group.members if status.group is not None else ()
    said = [status.workers.get(worker) for worker in members]
    slots = sum(worker.slots for worker in said if worker is not None and worker.state is not WorkerPhase.LEFT)
    if None in said or not 0 < slots < unbounded:
        return None
    return SlotShortage(unbounded=unbounded, slots=slots)


def _unbounded_tasks(jobs: JobsSnapshot, status: StatusSnapshot) -> int:
    """Without those that have failed for good, or have ended all the same."""
    streaming = {job for job, definition in jobs.jobs.items() if definition.kind is TaskKind.STREAMING}
    if not streaming:
        return 0
    return sum(task.job in streaming and not task.is_planner for task in configured(jobs, status.tasks))
