"""What encoding and decoding cost a leader, in v2 and in v3: ``python -m benchmarks.messages``.

The rounds are those of ``rounds.py``. In each, all metadata is decoded, the assignor is called, and all assignments are
encoded: in v2 as differences, in v3 as complete targets. Both take turns in one process. Where a worker's tasks stay
the same, v3 writes the bytes that it has read.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from airflow_provider.assignment.cooperative_assignor import assign
from airflow_provider.assignment.model import GroupAssignment, Memory, Round
from airflow_provider.group.classic.wire import v1, v3
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.values.model import (
    NO_GENERATION,
    NO_TASKS,
    Assignment,
    ConfigOffset,
    GenerationId,
    TaskId,
    Tasks,
    WorkerId,
    WorkerState,
)
from airflow_provider.values.packed_tasks import PackedTasks
from benchmarks.rounds import POLICY

_SIZES: Final = ((100, 100, 20), (1_000, 1_000, 5))
"""Workers, jobs of a hundred tasks, and how often each side does each round."""
_URL: Final = "http://localhost:8080/dags/example/runs/manual__2026-01-01/tasks/worker"
_OFFSET: Final = ConfigOffset(1)

_Metadata = Mapping[WorkerId, bytes]
_Decide = Callable[[Mapping[WorkerId, Tasks]], GroupAssignment]
_Times = tuple[float, float, float]
"""Seconds of processor time to decode, to assign, to encode."""


def main() -> None:
    print(f"{'ms: read, write, in all with the assignor':>46}{'v2':>26}{'v3':>26}{'v3 / v2':>10}{'bytes':>8}")
    for workers, jobs, times in _SIZES:
        for kind in ("full", "steady", "join"):
            owned, decide = _situation(workers, jobs, kind)
            of_v2 = {worker: _metadata_v2(tasks) for worker, tasks in owned.items()}
            of_v3 = {worker: _metadata_v3(tasks) for worker, tasks in owned.items()}
            runs = [(_round_v2(of_v2, decide), _round_v3(of_v3, decide)) for _ in range(times)]
            older, newer = (_medians(side) for side in zip(*runs, strict=True))
            name = f"{workers:,} workers x {jobs * 100:,} tasks {kind}"
            columns = "".join(f"{side[0]:>10.1f}{side[2]:>8.1f}{sum(side):>8.1f}" for side in (older, newer))
            sent = sum(map(len, of_v3.values())) / sum(map(len, of_v2.values()))
            print(f"{name:>46}{columns}{sum(newer) / sum(older):>10.2f}{sent:>8.2f}", flush=True)


def _medians(times: Iterable[_Times]) -> list[float]:
    """The medians, in milliseconds."""
    return [statistics.median(part) * 1e3 for part in zip(*times, strict=True)]


def _situation(workers: int, jobs: int, kind: str) -> tuple[Mapping[WorkerId, Tasks], _Decide]:
    """What each worker owns when the round begins, and a function that runs the assignor."""
    configured = frozenset(TaskId(f"job-{job:05}", index) for job in range(jobs) for index in range(-1, 100))
    nobody = dict.fromkeys((WorkerId(f"worker-{number:04}") for number in range(workers)), NO_TASKS)
    decide = partial(_decide, configured, Memory(), NO_GENERATION)
    if kind == "full":
        return nobody, decide
    first = decide(nobody)
    joins = {WorkerId("worker-new"): NO_TASKS} if kind == "join" else {}
    return {**first.target, **joins}, partial(_decide, configured, first.memory, first.memory.generation)


def _decide(configured: Tasks, memory: Memory, last: GenerationId, owned: Mapping[WorkerId, Tasks]) -> GroupAssignment:
    generation = GenerationId(last + 1 if memory.generation == last else 1)
    round_ = Round(now_ms=0, generation=generation, last_completed=last, configured=configured, owned=owned)
    return assign(round_, memory, policy=POLICY)


def _metadata_v2(tasks: Tasks) -> bytes:
    own = Assignment(version=2, config_offset=_OFFSET, assigned=tasks)
    return v1.encode_metadata(WorkerState(version=2, url=_URL, config_offset=_OFFSET, assignment=own))


def _metadata_v3(tasks: Tasks) -> bytes:
    return v3.encode_metadata(ExtensibleState(url=_URL, config_offset=_OFFSET, owned=PackedTasks.of(tasks), slots=4))


def _round_v2(metadata: _Metadata, decide: _Decide) -> _Times:
    began = time.process_time()
    owned = {worker: v1.decode_metadata(data).owned for worker, data in metadata.items()}
    read = time.process_time()
    outcome = decide(owned)
    decided = time.process_time()
    for worker in owned:
        v1.encode_assignment(
            Assignment(
                version=2,
                leader="worker-0000",
                leader_url=_URL,
                config_offset=_OFFSET,
                assigned=outcome.assigned.get(worker, NO_TASKS),
                revoked=outcome.revoked.get(worker, NO_TASKS),
                delay_ms=outcome.delay_ms,
            )
        )
    return read - began, decided - read, time.process_time() - decided


def _round_v3(metadata: _Metadata, decide: _Decide) -> _Times:
    began = time.process_time()
    packed = {worker: v3.decode_metadata(data).owned for worker, data in metadata.items()}
    owned = {worker: tasks.tasks() for worker, tasks in packed.items()}
    read = time.process_time()
    outcome = decide(owned)
    decided = time.process_time()
    again = any(outcome.revoked.values())
    for worker, had in owned.items():
        target = outcome.target[worker]
        v3.encode_assignment(
            ExtensibleAssignment(
                leader="worker-0000",
                leader_url=_URL,
                config_offset=_OFFSET,
                target=packed[worker] if target is had or target == had else PackedTasks.of(target),
                revoked=PackedTasks.of(outcome.revoked.get(worker, NO_TASKS)),
                delay_ms=outcome.delay_ms,
                another_round=again,
            )
        )
    return read - began, decided - read, time.process_time() - decided


if __name__ == "__main__":
    main()
