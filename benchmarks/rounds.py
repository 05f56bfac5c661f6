"""Computes one round again and again: ``python -m benchmarks.rounds WORKERS JOBS TASKS full|steady|join CALLS LEADS``.

It does and prints the same as ``java/Rounds.java``: one JSON object with the milliseconds of each call, and the
decision. It calls the assignor a number of times, and then the leader, from bytes to bytes; and measures what only ours
does: the leader in versions 3 and 4 of the protocol, and writing and reading the round's records, packed.

A leader remembers the round before, as Java's assignor does, and what it has decoded and encoded in it. So each round
is led after one in which the members sent the same (not timed), and nothing is kept of any other round. A new leader,
which has to decode everything and only remembers what the topic says, is measured separately.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider.assignment.cooperative_assignor import assign
from airflow_provider.assignment.model import Memory, Round
from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.leader.leader import lead
from airflow_provider.group.classic.leader.leader_input import Call
from airflow_provider.group.classic.member.events import JoinedMember
from airflow_provider.group.classic.wire import LEARNING, columns, fields, v1
from airflow_provider.group.classic.wire.extensible import ExtensibleState
from airflow_provider.state.records.envelope import decode, encode
from airflow_provider.state.records.round_bytes import encoded_round
from airflow_provider.state.rounds import task_sets
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.rounds.reading import group_record_from_json
from airflow_provider.values import packed_tasks
from airflow_provider.values.model import (
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
from airflow_provider.values.packed_tasks import PackedTasks

POLICY: Final = Deferred(max_delay_ms=300_000)
OFFSET: Final = ConfigOffset(1)


def measure(workers: int, jobs: int, tasks: int, kind: str, calls: int, leads: int) -> dict[str, object]:
    """The figures of one kind of round."""
    sessioned = Rounds.of(workers, jobs, tasks, kind, SubProtocol.SESSIONED)
    call = sessioned.after_the_one_before()
    round_, memory = _round(call), call.last_record.memory if call.last_record else Memory()
    assign_ms: list[float] = []
    for _ in range(calls):
        with _timed(assign_ms):
            outcome = assign(round_, memory, policy=POLICY)
    decided = {
        "assign_ms": assign_ms,
        "started": _tasks_in(outcome.assigned),
        "stopped": _tasks_in(outcome.revoked),
    }
    if not leads:
        return decided
    extensible = Rounds.of(workers, jobs, tasks, kind, SubProtocol.EXTENSIBLE)
    compressed = Rounds.of(workers, jobs, tasks, kind, SubProtocol.COMPRESSED)
    record = _record(sessioned.call)
    record_ms: list[float] = []
    read_ms: list[float] = []
    for _ in range(leads):
        with _timed(record_ms):
            written = encoded_round(record, packed=True)
        with _timed(read_ms):
            group_record_from_json(decode(written.status))
    return {
        **decided,
        "lead_ms": sessioned.lead_ms(leads),
        "new_leader_ms": sessioned.new_leader_ms(leads),
        "extensible_ms": extensible.lead_ms(leads),
        "extensible_new_leader_ms": extensible.new_leader_ms(leads),
        "compressed_ms": compressed.lead_ms(leads),
        "compressed_new_leader_ms": compressed.new_leader_ms(leads),
        "record_ms": record_ms,
        "read_ms": read_ms,
        "record_bytes": len(written.status),
    }


@dataclass(frozen=True, slots=True)
class Rounds:
    """A round, and the one before.

    :param before: None: the group has had none
    """

    before: Call | None
    call: Call

    @classmethod
    def of(cls, workers: int, jobs: int, tasks: int, kind: str, protocol: SubProtocol) -> Rounds:
        configured = frozenset(TaskId(f"job-{job:05}", index) for job in range(jobs) for index in range(-1, tasks))
        nothing = dict.fromkeys((WorkerId(f"worker-{number:04}") for number in range(workers)), NO_TASKS)
        first = _call(nothing, configured, None, protocol)
        if kind == "full":
            return cls(None, first)
        given = _record(first)
        joins = {WorkerId("worker-new"): NO_TASKS} if kind == "join" else {}
        before = _call(given.assignment, configured, given, protocol)
        return cls(before, _call({**given.assignment, **joins}, configured, _record(before), protocol))

    def lead_ms(self, number: int) -> list[float]:
        times: list[float] = []
        for _ in range(number):
            call = self.after_the_one_before()
            with _timed(times):
                lead(call)
        return times

    def new_leader_ms(self, number: int) -> list[float]:
        times: list[float] = []
        for _ in range(number):
            call = self.call
            if call.last_record is not None:
                from_topic = ClassicRecord.from_json(json.loads(encode(call.last_record.to_json())))
                call = replace(call, last_record=from_topic, last_completed=NO_GENERATION)
            _forget()
            with _timed(times):
                lead(call)
        return times

    def after_the_one_before(self) -> Call:
        """The round, for a leader that has led the one before, and knows nothing else."""
        _forget()
        return self.call if self.before is None else replace(self.call, last_record=_record(self.before))


def _forget() -> None:
    """Clear the caches of what was decoded and encoded."""
    for recent in (
        fields.READ,
        packed_tasks.PACKED,
        packed_tasks.UNPACKED,
        columns.WRITTEN,
        columns.READ,
        task_sets.KNOWN,
    ):
        recent.clear()


@contextmanager
def _timed(times: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    times.append(round((time.perf_counter() - began) * 1e3, 3))


def _call(
    owned: Mapping[WorkerId, Tasks], configured: Tasks, last: ClassicRecord | None, protocol: SubProtocol
) -> Call:
    members = tuple(
        JoinedMember(member_id=MemberId(worker), instance_id=worker, metadata=_metadata(tasks, last, protocol))
        for worker, tasks in owned.items()
    )
    return Call(
        generation=GenerationId(last.generation + 1 if last else 1),
        protocol=protocol,
        leader=members[0].member_id,
        last_completed=last.generation if last else NO_GENERATION,
        members=members,
        configured=configured,
        config_offset=OFFSET,
        last_record=last,
        policy=POLICY,
        now_ms=0,
        reason="a benchmark",
    )


def _metadata(tasks: Tasks, last: ClassicRecord | None, protocol: SubProtocol) -> bytes:
    if protocol.learns:
        epoch = last.epoch if last else None
        return LEARNING[protocol].encode_metadata(
            ExtensibleState(version=protocol.version, config_offset=OFFSET, owned=PackedTasks.of(tasks), epoch=epoch)
        )
    own = Assignment(version=protocol.version, config_offset=OFFSET, assigned=tasks)
    return v1.encode_metadata(WorkerState(version=protocol.version, url="", config_offset=OFFSET, assignment=own))


def _round(call: Call) -> Round:
    """The assignor's input, as the leader makes it."""
    return Round(
        now_ms=call.now_ms,
        generation=call.generation,
        last_completed=call.last_completed,
        configured=call.configured,
        owned={WorkerId(member.member_id): v1.decode_metadata(member.metadata).owned for member in call.members},
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
