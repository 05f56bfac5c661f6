"""Whether each task that never ends has a slot: without one it would wait for ever. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from airflow_provider.state.records import TaskKind, TaskState, WorkerPhase
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.counted import counted
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import TaskId, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotShortage:
    """Streams want more slots than there are, or than there are where they are assigned.

    :param unbounded: the number of tasks of streaming jobs that are to run, as far as they may never end
    :param wanted: how many slots they want together
    :param slots: how many slots all workers have together
    :param taken: how many slots the running ones take; more than there are, if a worker has adopted more than it has
    :param stuck: how many wait on which workers, if there are enough slots, but not where the streams are
    """

    unbounded: int
    wanted: int
    slots: int
    taken: int = 0
    stuck: Mapping[WorkerId, int] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        return sum(self.stuck.values()) or self.wanted - max(self.slots, self.taken)

    def in_words(self) -> str:
        """What this means and what to do, for people."""
        slots = counted(self.slots, "slot")
        tasks = counted(self.unbounded, "stream")
        if self.stuck:
            where = ", ".join(f"{number} on {worker}" for worker, number in sorted(self.stuck.items()))
            what = f"{tasks}, {slots}, but some workers have more streams than slots"
            return f"{what}: some wait for ever ({where}), unless others end; give all workers the same slots"
        if self.wanted == self.unbounded:
            waits = "1 of them waits" if self.missing == 1 else f"{self.missing} of them wait"
            what = f"{tasks}, {slots}: {waits} for ever, unless another one ends"
        else:
            waits = "some have fewer than they want, or wait for ever, unless others end"
            what = f"{tasks} that want {self.wanted} slots, {slots}: {waits}"
        return f"{what}; add workers, or give them more slots"

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def slot_shortage(jobs: JobsSnapshot, status: StatusSnapshot) -> SlotShortage | None:
    """The missing slots; None: none are missing, or this is unknown because a member has not written its slots."""
    unbounded = _unbounded_tasks(jobs, status)
    members = status.group.members if status.group is not None else ()
    said = [status.workers.get(worker) for worker in members]
    there = [worker.slots for worker in said if worker is not None and worker.state is not WorkerPhase.LEFT]
    slots, most = sum(there), max(there, default=0)
    if not unbounded or None in said or not slots:
        return None

    def wanted_by(tasks: list[TaskId]) -> int:
        return sum(min(jobs.slots_of(task), most) for task in tasks) if jobs.has_large else len(tasks)

    wanted = wanted_by(unbounded)
    taken = wanted_by([task for task in unbounded if task in status.tasks and status.tasks[task].server])
    stuck = _stuck(unbounded, status) if wanted <= slots else {}
    found = SlotShortage(unbounded=len(unbounded), wanted=wanted, slots=slots, taken=taken, stuck=stuck)
    return found if found.missing > 0 else None


def _stuck(unbounded: list[TaskId], status: StatusSnapshot) -> Mapping[WorkerId, int]:
    """How many streams wait on each worker and stay there, because no other worker has fewer streams to even out: a
    leader of Java Connect knows no slots, and spreads streams evenly.
    """
    group, said = status.group, status.workers
    if group is None or group.revokes or BRIDGE in group.members:
        return {}
    has = {name: group.owned_by(name).intersection(unbounded) for name in group.members if said[name].slots}
    running = {name: sum(1 for task in has[name] if (last := status.tasks.get(task)) and last.server) for name in has}
    waits = {name: len(has[name]) - max(said[name].slots, running[name]) for name in has}
    fewest = min(map(len, has.values()), default=0)
    return {name: number for name, number in waits.items() if number > 0 and len(has[name]) <= fewest + 1}


def _unbounded_tasks(jobs: JobsSnapshot, status: StatusSnapshot) -> list[TaskId]:
    """Tasks of streaming jobs, without those that have ended or failed for good, those of paused jobs, and those of a
    job of which one stream has finished: the others will finish, too.
    """
    streaming = {name for name, job in jobs.jobs.items() if job.kind is TaskKind.STREAMING and not jobs.is_paused(name)}
    if not streaming:
        return []
    streaming -= {
        task.job for task, last in status.tasks.items() if last.state is TaskState.FINISHED and not task.is_planner
    }
    return [task for task in configured(jobs, status.tasks) if task.job in streaming and not task.is_planner]
