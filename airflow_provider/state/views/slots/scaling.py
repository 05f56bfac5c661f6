"""Who is asked to leave when a group is to have fewer workers: the smallest, then those with least to move. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Final, NamedTuple

from airflow_provider.assignment.balancing.portions import slots_or_mean
from airflow_provider.state.records import WorkerPhase
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import may_be_asked, stands_back
from airflow_provider.state.views.slots.costs import slots_of
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured, revocation_rank
from airflow_provider.values.counted import counted
from airflow_provider.values.model import NO_TASKS, WorkerId

RULE: Final = (
    "fewest slots first, then least to move, that is fewest running tasks with state, then fewest running tasks, then"
    " fewest tasks"
)

_PERCENT: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?%")


class ScaleError(ValueError):
    """A group can't be made smaller that way; the message says why and what to do. Nobody was asked anything."""


class UnknownWorkersError(ScaleError):
    """Workers that were to leave are not in the group."""


@dataclass(frozen=True, slots=True)
class Share:
    """So many of a hundred stay, rounded up."""

    percent: Fraction

    def __str__(self) -> str:
        return f"{float(self.percent):g}%"


@dataclass(frozen=True, slots=True)
class Count:
    """So many stay."""

    workers: int

    def __str__(self) -> str:
        return str(self.workers)


@dataclass(frozen=True, slots=True)
class Without:
    """All but these stay."""

    workers: frozenset[WorkerId]


Goal = Share | Count | Without


def share(text: str) -> Share:
    """:raises ScaleError: for anything but a percentage between 0 and 100, both excluded"""
    found = _PERCENT.fullmatch(text.strip())
    if found is None:
        raise ScaleError(f"{text!r} must be a percentage of the present workers, such as 80%")
    percent = Fraction(found[1])
    if not percent:
        raise ScaleError(f"{text!r} would leave no worker: to have all workers leave, use cospark workers drain --all")
    if percent >= 100:
        raise ScaleError(f"{text!r} must be less than 100%: scaling down only asks workers to leave, and starts none")
    return Share(percent)


def count(workers: int) -> Count:
    """:raises ScaleError: for less than 1"""
    if workers < 1:
        raise ScaleError(f"{workers} would leave no worker: to have all workers leave, use cospark workers drain --all")
    return Count(workers)


def all_but(workers: Iterable[str]) -> Without:
    """:raises ScaleError: if nobody is named"""
    names = frozenset(map(WorkerId, workers))
    if not names:
        raise ScaleError("name the workers that leave")
    return Without(names)


class Leaver(NamedTuple):
    """Who is to leave, and what it has to move.

    :param slots: how many slots the group loses with it; a worker that stands back has none
    :param stateful: how many of its tasks have state and run
    :param running: how many of its tasks run
    :param tasks: how many it has
    """

    worker: WorkerId
    slots: int
    stateful: int
    running: int
    tasks: int

    @property
    def in_words(self) -> str:
        """As in "w3: has 2 slots, runs 2 of 3 tasks, 1 with state"."""
        slots = f"{self.worker}: has {counted(self.slots, 'slot')}"
        if not self.tasks:
            return f"{slots}, and no task"
        state = f", {self.stateful} with state" if self.stateful else ""
        return f"{slots}, runs {self.running} of {counted(self.tasks, 'task')}{state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDown:
    """How a group gets smaller.

    :param present: who is in it, or stands back from it
    :param going: who of them leaves or drains already
    :param leavers: who is to be asked, in the order in which they were found
    :param learns: whether others learn what these have. Where they don't, a worker that is asked drains
    """

    present: frozenset[WorkerId]
    going: frozenset[WorkerId]
    leavers: tuple[Leaver, ...]
    learns: bool

    @property
    def asked(self) -> tuple[WorkerId, ...]:
        return tuple(leaver.worker for leaver in self.leavers)

    @property
    def stay(self) -> frozenset[WorkerId]:
        return self.present - self.going - frozenset(self.asked)

    @property
    def in_words(self) -> str:
        """As in "8 of 40 workers, 2 more leave already, 30 stay"."""
        already = f", {len(self.going)} more {_leave(len(self.going))}" if self.going else ""
        return f"{len(self.leavers)} of {counted(len(self.present), 'worker')}{already}, {_stay(len(self.stay))}"

    @property
    def what_follows(self) -> str:
        """What the workers that are asked do."""
        if self.learns:
            return "they finish their batch tasks, and leave when others have learned and taken over the rest"
        return (
            "this group learns no tasks: they start no more tasks, and leave when their running tasks have finished;"
            " others adopt their detached streams"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "learns": self.learns,
            "asked": list(self.asked),
            "going": sorted(self.going),
            "stay": sorted(self.stay),
            "to_move": {
                leaver.worker: {
                    "slots": leaver.slots,
                    "stateful": leaver.stateful,
                    "running": leaver.running,
                    "tasks": leaver.tasks,
                }
                for leaver in self.leavers
            },
        }


def scale_down(goal: Goal, jobs: JobsSnapshot, status: StatusSnapshot) -> ScaleDown:
    """Which workers to ask so that the group reaches its goal.

    :raises ScaleError: if it can't reach it by workers leaving, or has reached it
    """
    present = may_be_asked(status)
    if not present:
        raise ScaleError("it has no worker")
    going = frozenset(worker for worker in present if goes(worker, status))
    candidates = sorted(_leavers(present - going, jobs, status), key=_smallest_first)
    if isinstance(goal, Without):
        _check_names(goal, present, going)
        leavers = tuple(leaver for leaver in candidates if leaver.worker in goal.workers)
    else:
        leavers = tuple(candidates[: len(candidates) - _staying(goal, len(present), len(going))])
    learns = status.group is not None and status.group.learns
    return ScaleDown(present=present, going=going, leavers=leavers, learns=learns)


def goes(worker: WorkerId, status: StatusSnapshot) -> bool:
    """Whether it has said that it leaves, or drains."""
    said = status.workers.get(worker)
    return said is not None and (said.drains or said.leaves_soon or said.state is WorkerPhase.STOPPING)


def _leavers(workers: Collection[WorkerId], jobs: JobsSnapshot, status: StatusSnapshot) -> Iterable[Leaver]:
    unfinished, runs = configured(jobs, status.tasks), revocation_rank(status.tasks).keys()
    slots = slots_or_mean(workers, slots_of(status)) | dict.fromkeys(stands_back(status), 0)
    for worker in workers:
        tasks = status.group.owned_by(worker) & unfinished if status.group else NO_TASKS
        running = tasks & runs
        stateful = sum(task.job in jobs.stateful for task in running)
        yield Leaver(worker, slots[worker], stateful, len(running), len(tasks))


def _smallest_first(leaver: Leaver) -> tuple[int, int, int, int, WorkerId]:
    return leaver.slots, leaver.stateful, leaver.running, leaver.tasks, leaver.worker


def _check_names(goal: Without, present: frozenset[WorkerId], going: frozenset[WorkerId]) -> None:
    if unknown := sorted(goal.workers - present):
        raise UnknownWorkersError(f"{', '.join(unknown)}: not in it; in it: {', '.join(sorted(present))}")
    if goal.workers <= going:
        leave = _leave(len(goal.workers))
        raise ScaleError(f"no worker is left to ask: {', '.join(sorted(goal.workers))} {leave}")
    if goal.workers | going == present:
        raise ScaleError("no worker would stay: to have all workers leave, use cospark workers drain --all")


def _staying(goal: Share | Count, present: int, going: int) -> int:
    """How many are to stay."""
    stay, now = goal.workers if isinstance(goal, Count) else ceil(present * goal.percent / 100), present - going
    aim = str(goal) if isinstance(goal, Count) else f"{goal} of {present}, rounded up, are {stay}"
    has = f"it has {counted(present, 'worker')}{f', of which {going} {_leave(going)}' if going else ''}"
    if stay > now:
        raise ScaleError(f"{has}, and {aim} would be more: scaling down only asks workers to leave, and starts none")
    if stay == now:
        raise ScaleError(f"no worker is left to ask: {has}, and {aim if isinstance(goal, Share) else aim + ' stay'}")
    return stay


def _leave(number: int) -> str:
    return f"leave{'s' if number == 1 else ''} already"


def _stay(number: int) -> str:
    return f"{number} stay{'s' if number == 1 else ''}"


def still_there(asked: Iterable[WorkerId], jobs: JobsSnapshot, status: StatusSnapshot) -> frozenset[WorkerId]:
    """The workers that were asked and have not left. One that leaves deletes its request, even if it comes back later.

    :param jobs: read beyond the requests
    """
    return may_be_asked(status) & jobs.controls.keys() & frozenset(asked)


def departure(asked: Iterable[WorkerId], jobs: JobsSnapshot, status: StatusSnapshot) -> Mapping[str, list[WorkerId]]:
    """How far the workers are that were asked to leave: who has left, who has not, and who drains, or did, because
    nobody learned its tasks.
    """
    there = still_there(asked, jobs, status)
    drained = (worker for worker, said in status.workers.items() if said.leaves_soon and said.drains)
    return {
        "left": sorted(frozenset(asked) - there),
        "still_there": sorted(there),
        "drained": sorted(frozenset(asked) & frozenset(drained)),
    }
