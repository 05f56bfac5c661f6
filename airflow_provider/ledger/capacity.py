"""Whether a group has a slot for each task that never ends: a task without a slot would wait for ever. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.progress import configured
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import TaskId
from airflow_provider.records import TaskKind, WorkerPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotShortage:
    """Tasks without end want more slots than there are.

    :param unbounded: the number of tasks of streaming jobs
    :param wanted: how many slots they want together
    :param slots: how many slots all workers have together
    """

    unbounded: int
    wanted: int
    slots: int

    @property
    def missing(self) -> int:
        return self.wanted - self.slots

    def in_words(self) -> str:
        """What this means and what to do, for people."""
        slots = "1 slot" if self.slots == 1 else f"{self.slots} slots"
        tasks = "1 unbounded task" if self.unbounded == 1 else f"{self.unbounded} unbounded tasks"
        if self.wanted == self.unbounded:
            waits = "1 of them waits" if self.missing == 1 else f"{self.missing} of them wait"
            what = f"{tasks}, {slots}: {waits} for ever"
        else:
            what = f"{tasks} that want {self.wanted} slots, {slots}: some have fewer than they want, or wait for ever"
        return f"{what}; add workers, or give them more slots"

    def to_json(self) -> dict[str, int]:
        return {"unbounded": self.unbounded, "wanted": self.wanted, "slots": self.slots}


def slot_shortage(jobs: JobsSnapshot, status: StatusSnapshot) -> SlotShortage | None:
    """The missing slots; None: none are missing, or this is unknown because a member has not written its slots."""
    unbounded = _unbounded_tasks(jobs, status)
    if not unbounded:
        return None
    members = status.group.members if status.group is not None else ()
    said = [status.workers.get(worker) for worker in members]
    there = [worker.slots for worker in said if worker is not None and worker.state is not WorkerPhase.LEFT]
    slots, most = sum(there), max(there, default=0)
    wanted = sum(min(jobs.slots_of(task), most) for task in unbounded) if jobs.has_large else len(unbounded)
    if None in said or not 0 < slots < wanted:
        return None
    return SlotShortage(unbounded=len(unbounded), wanted=wanted, slots=slots)


def _unbounded_tasks(jobs: JobsSnapshot, status: StatusSnapshot) -> list[TaskId]:
    """Tasks of streaming jobs, without those that have ended or failed for good."""
    streaming = {job for job, definition in jobs.jobs.items() if definition.kind is TaskKind.STREAMING}
    if not streaming:
        return []
    return [task for task in configured(jobs, status.tasks) if task.job in streaming and not task.is_planner]
