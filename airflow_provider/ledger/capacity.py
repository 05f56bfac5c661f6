"""Whether a group has a slot for each task that never ends: one that has none waits for ever. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.ledger.jobs_view import JobsSnapshot
from airflow_provider.ledger.progress import configured
from airflow_provider.ledger.status_view import StatusSnapshot
from airflow_provider.protocol.model import TaskId
from airflow_provider.records import TaskKind, TaskState, WorkerPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotShortage:
    """Streams want more slots than there are.

    :param unbounded: how many tasks of streaming jobs are to run; it is not known of any that it ends by itself
    :param wanted: how many slots they take together, where each can have what it wants
    :param slots: how many all workers have together
    :param taken: how many those take that run, which may be more: what runs on a server is adopted beyond them
    """

    unbounded: int
    wanted: int
    slots: int
    taken: int = 0

    @property
    def missing(self) -> int:
        return self.wanted - max(self.slots, self.taken)

    def in_words(self) -> str:
        """For people: what it means, and what to do."""
        slots = "1 slot" if self.slots == 1 else f"{self.slots} slots"
        tasks = "1 stream" if self.unbounded == 1 else f"{self.unbounded} streams"
        if self.wanted == self.unbounded:
            waits = "1 of them waits" if self.missing == 1 else f"{self.missing} of them wait"
            what = f"{tasks}, {slots}: {waits} for ever, unless another one ends"
        else:
            waits = "some have fewer than they want, or wait for ever, unless others end"
            what = f"{tasks} that want {self.wanted} slots, {slots}: {waits}"
        return f"{what}; add workers, or give them more slots"

    def to_json(self) -> dict[str, int]:
        return {"unbounded": self.unbounded, "wanted": self.wanted, "slots": self.slots}


def slot_shortage(jobs: JobsSnapshot, status: StatusSnapshot) -> SlotShortage | None:
    """What is missing; None: nothing, or it isn't known, because there is a member that has not said what it has."""
    unbounded = _unbounded_tasks(jobs, status)
    if not unbounded:
        return None
    members = status.group.members if status.group is not None else ()
    said = [status.workers.get(worker) for worker in members]
    there = [worker.slots for worker in said if worker is not None and worker.state is not WorkerPhase.LEFT]
    slots, most = sum(there), max(there, default=0)

    def wanted_by(tasks: list[TaskId]) -> int:
        return sum(min(jobs.slots_of(task), most) for task in tasks) if jobs.has_large else len(tasks)

    wanted = wanted_by(unbounded)
    if None in said or not 0 < slots < wanted:
        return None
    taken = wanted_by([task for task in unbounded if task in status.tasks and status.tasks[task].server])
    found = SlotShortage(unbounded=len(unbounded), wanted=wanted, slots=slots, taken=taken)
    return found if found.missing > 0 else None


def _unbounded_tasks(jobs: JobsSnapshot, status: StatusSnapshot) -> list[TaskId]:
    """Without those that have failed for good or have ended, those of paused jobs, and those of a job of which a stream
    has come to its end: what its others run does, too.
    """
    streaming = {job for job, definition in jobs.jobs.items() if definition.kind is TaskKind.STREAMING}
    streaming = {job for job in streaming if not jobs.is_paused(job)}
    if not streaming:
        return []
    streaming -= {
        task.job for task, last in status.tasks.items() if last.state is TaskState.FINISHED and not task.is_planner
    }
    return [task for task in configured(jobs, status.tasks) if task.job in streaming and not task.is_planner]
