"""One round over and over: ``python -m benchmarks.rounds WORKERS JOBS TASKS full|steady|join CALLS LEADS``.

The same as ``java/Rounds.java``, and prints the same: one JSON object with the milliseconds of each call and what was
decided. A number of calls of the assignor, then of the leader, who begins and ends with bytes; and what only ours
does, to write the record of the round.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from airflow_provider.assignors.cooperative import assign
from airflow_provider.assignors.model import Memory, Round
from airflow_provider.assignors.policy import Deferred
from airflow_provider.ledger.records.envelope import encode
from airflow_provider.membership.events import JoinedMember
from airflow_provider.membership.leader import Call, lead
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.embedded.v1 import decode_metadata, encode_metadata
from airflow_provider.protocol.model import (
    NO_GENERATION,
    NO_TASKS,
    Assignment,
    ConfigOffset,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
    WorkerState,
)

POLICY: Final = Deferred(max_delay_ms=300_000)


def measure(workers: int, jobs: int, tasks: int, kind: str, calls: int, leads: int) -> dict[str, object]:
    """The figures of one kind of round."""
    configured = frozenset(TaskId(f"job-{job:05}", index) for job in range(jobs) for index in range(-1, tasks))
    owned = dict.fromkeys((WorkerId(f"worker-{number:04}") for number in range(workers)), NO_TASKS)
    call = _call(owned, configured, None)
    if kind != "full":
        last = _record(call)
        joins = {WorkerId("worker-new"): NO_TASKS} if kind == "join" else {}
        # What it remembers has come back from the topic, however large.
        remembered = ClassicRecord.from_json(json.loads(encode(last.to_json())))
        call = _call({**last.assignment, **joins}, configured, remembered)
    assign_ms: list[float] = []
    lead_ms: list[float] = []
    record_ms: list[float] = []
    for _ in range(calls):
        round_, memory = _round(call), call.last_record.memory if call.last_record else Memory()
        with _timed(assign_ms):
            outcome = assign(round_, memory, policy=POLICY)
    for _ in range(leads):
        with _timed(lead_ms):
            record = _record(call)
        with _timed(record_ms):
            written = encode(record.to_json())
    return {
        "assign_ms": assign_ms,
        "lead_ms": lead_ms,
        "record_ms": record_ms,
        "record_bytes": len(written) if leads else None,
        "started": _tasks_in(outcome.assigned),
        "stopped": _tasks_in(outcome.revoked),
    }


@contextmanager
def _timed(times: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    times.append(round((time.perf_counter() - began) * 1e3, 3))


def _call(owned: Mapping[WorkerId, Tasks], configured: Tasks, last: ClassicRecord | None) -> Call:
    members = tuple(
        JoinedMember(
            member_id=MemberId(worker),
            instance_id=worker,
            metadata=encode_metadata(
                WorkerState(
                    version=2,
                    url="",
                    config_offset=ConfigOffset(1),
                    assignment=Assignment(version=2, config_offset=ConfigOffset(1), assigned=tasks),
                )
            ),
        )
        for worker, tasks in owned.items()
    )
    return Call(
        generation=GenerationId(2 if last else 1),
        protocol=SubProtocol.SESSIONED,
        leader=members[0].member_id,
        last_completed=last.generation if last else NO_GENERATION,
        members=members,
        configured=configured,
        config_offset=ConfigOffset(1),
        last_record=last,
        policy=POLICY,
        now_ms=0,
        reason="a benchmark",
    )


def _round(call: Call) -> Round:
    """What the leader makes of its call: what is owned is read from the bytes anew each time."""
    return Round(
        now_ms=call.now_ms,
        generation=call.generation,
        last_completed=call.last_completed,
        configured=call.configured,
        owned={WorkerId(member.member_id): decode_metadata(member.metadata).owned for member in call.members},
    )


def _record(call: Call) -> ClassicRecord:
    record = lead(call).record
    assert record is not None
    return record


def _tasks_in(shares: Mapping[WorkerId, Tasks]) -> int:
    return sum(not task.is_planner for tasks in shares.values() for task in tasks)


if __name__ == "__main__":
    workers, jobs, tasks, kind, calls, leads = sys.argv[1:]
    print(json.dumps(measure(int(workers), int(jobs), int(tasks), kind, int(calls), int(leads))))
