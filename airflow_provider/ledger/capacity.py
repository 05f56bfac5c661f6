"""Whether a group has a slot for each task that never ends: a task without a slot would wait for ever. Pure."""

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

    :param unbounded: the number of tasks of streaming jobs that are to run, as far as they may never end
    :param wanted: how many slots they want together
    :param slots: how many slots all workers have together
    :param taken: how many slots the running ones take. This may be more than there are: a worker adopts queries on a
        server even if it has no free slots
    """

    unbounded: int
    wanted: int
    slots: int
    taken: int = 0

    @property
    def missing(self) -> int:
        return self.wanted - max(self.slots, self.taken)

    def in_words(self) -> str:
        """What this means and what to do, for people."""
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
    """The missing slots; None: none are missing, or this is unknown because a member has not written its slots."""
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
    """Tasks of streaming jobs, without those that have ended or failed for good, those of paused jobs, and those of a
    job of which one stream has finished: the others will finish, too.
    """
    streaming = {job for job, definition in jobs.jobs.items() if definition.kind is TaskKind.STREAMING}
    streaming = {job for job in streaming if not jobs.is_paused(job)}
    if not streaming:
        return []
    streaming -= {
        task.job for task, last in status.tasks.items() if last.state is TaskState.FINISHED and not task.is_planner
    }
    return [task for task in configured(jobs, status.tasks) if task.job in streaming and not task.is_planner]
