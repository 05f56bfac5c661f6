"""The cooperative assignor of declarative groups against a round of the classic one, on the same group in one run.

Measured are the first assignment, one that has nothing to do, one after a member has joined, and one after a member was
lost. The classic assignor moves a new member's share in two rounds, of which the first is timed; for the declarative
one it is the whole assignment.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from airflow_provider.assignment import cooperative_assignor
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.declarative.assignors import CooperativeAssignor
from airflow_provider.group.declarative.assignors.client_assignor import Group, GroupMember, WorkerFacts
from airflow_provider.group.declarative.protocol.model import NO_TARGET, MemberTarget
from airflow_provider.values.model import NO_TASKS, GenerationId, MemberId, TaskId, Tasks, WorkerId

_SIZES: Final = ((100, 10_000), (1_000, 100_000))
_TASKS_OF_JOB: Final = 100
_TIMES: Final = 5
_NEW: Final = MemberId("new")
_DECLARATIVE: Final = CooperativeAssignor()
_SAYS: Final = _DECLARATIVE.metadata(WorkerFacts(url="https://airflow.example/dags/d/runs/r/tasks/t"))


def run(_: Path) -> dict[str, Any]:
    """Measure, print, and return the figures: milliseconds, and ratios to the classic round."""
    cells = []
    for workers, tasks in _SIZES:
        for kind, (ours, classic) in _cases(workers, tasks).items():
            ours_ms, classic_ms = _least_ms(ours, classic)
            cell = {"group": f"{workers:,} x {tasks:,}", "kind": kind, "ms": ours_ms, "classic_ms": classic_ms}
            cells.append(cell | {"ratio": ours_ms / classic_ms})
            print(f"{cell['group']:>18} {kind:>8}: {ours_ms:7.1f} ms, classic {classic_ms:7.1f} ms,"
                  f" ratio {ours_ms / classic_ms:.2f}", flush=True)  # fmt: skip
    return {"cells": cells}


Case = tuple[Callable[[], object], Callable[[], object]]


def _cases(workers: int, tasks: int) -> dict[str, Case]:
    jobs = tasks // _TASKS_OF_JOB
    configured = frozenset(TaskId(f"job{job}", index) for job in range(jobs) for index in range(-1, _TASKS_OF_JOB - 1))
    nobody = {MemberId(f"w{number:05}"): NO_TARGET for number in range(workers)}
    targets = _DECLARATIVE.assign(_group(nobody, configured)).members
    gone = next(iter(targets))
    others = {member: target for member, target in targets.items() if member != gone}
    return {
        "first": (lambda: _declarative(nobody, configured), lambda: _classic(nobody, configured, {})),
        "nothing": (lambda: _declarative(targets, configured), lambda: _classic(targets, configured, targets)),
        "join": (
            lambda: _declarative({**targets, _NEW: NO_TARGET}, configured),
            lambda: _classic({**targets, _NEW: NO_TARGET}, configured, targets),
        ),
        "loss": (
            lambda: _declarative(others, configured, {gone: targets[gone]}),
            lambda: _classic(others, configured, targets),
        ),
    }


Targets = Mapping[MemberId, MemberTarget]


def _group(members: Targets, configured: Tasks, departed: Targets | None = None) -> Group:
    def seen(target: MemberTarget) -> GroupMember:
        return GroupMember(version=_SAYS.version, metadata=_SAYS.metadata, target=target)

    return Group(
        computing=next(iter(members)),
        members={member: seen(target) for member, target in members.items()},
        departed={member: seen(target) for member, target in (departed or {}).items()},
        configured=configured,
        now_ms=0,
    )


def _declarative(members: Targets, configured: Tasks, departed: Targets | None = None) -> object:
    return _DECLARATIVE.assign(_group(members, configured, departed))


def _classic(members: Targets, configured: Tasks, before: Targets) -> object:
    known = Round(
        now_ms=0,
        generation=GenerationId(2),
        last_completed=GenerationId(1),
        configured=configured,
        owned={WorkerId(member): target.tasks or NO_TASKS for member, target in members.items()},
    )
    assignment = {WorkerId(member): target.tasks for member, target in before.items()}
    memory = Memory(generation=GenerationId(1), assignment=assignment, members=frozenset(assignment))
    return cooperative_assignor.assign(known, memory, policy=Deferred())


def _least_ms(*calls: Callable[[], object]) -> tuple[float, ...]:
    """The least time of each call, measured in turns."""
    least = [float("inf")] * len(calls)
    for _ in range(_TIMES):
        for place, call in enumerate(calls):
            gc.collect()
            started = time.perf_counter()
            call()
            least[place] = min(least[place], (time.perf_counter() - started) * 1_000)
    return tuple(least)
