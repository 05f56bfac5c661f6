"""How many slots a group has, lacks, and has to spare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from airflow_values import job
from group_records import record_of
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.assignment.model import Memory
from airflow_provider.state.metrics.missing_slots import NO_ROOM, Room, room
from airflow_provider.state.records import (
    CheckpointClaim,
    Halt,
    HaltRecord,
    PlanRecord,
    TaskHaltRecord,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.placed import Placed, PlacedTask
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId, Tasks, WorkerId
from airflow_provider.values.replacing import replaced

W1, W2 = WorkerId("w1"), WorkerId("w2")
PLANNED_MS, NOW_MS = 100_000, 600_000
RUNNING, PENDING = TaskState.RUNNING, TaskState.PENDING


def jobs_of(*, streams: Sequence[int] = (), batch: Sequence[int] = ()) -> JobsSnapshot:
    """A job "s" of streams and a job "b" of batch tasks; so many slots each task wants."""
    wanted = {"s": streams, "b": batch}
    jobs = {
        name: job(
            name, kind=TaskKind.STREAMING if name == "s" else TaskKind.BATCH, submitted_at_ms=PLANNED_MS, max_tasks=99
        )
        for name, slots in wanted.items()
        if slots
    }
    plans = {
        name: PlanRecord.of(
            one, [{"i": i, "slots": slots} for i, slots in enumerate(wanted[name])], planned_by=W1, at_ms=PLANNED_MS
        )
        for name, one in jobs.items()
    }
    return JobsSnapshot(jobs=jobs, plans=plans, defined_at=dict.fromkeys(jobs, 0), offset=ConfigOffset(3))


def said(worker: WorkerId, slots: int = 2, **more: Any) -> WorkerStatus:
    return WorkerStatus(**{"worker": worker, "state": WorkerPhase.STABLE, "epoch": Epoch(5), "slots": slots, **more})


def last(jobs: JobsSnapshot, task: TaskId, state: TaskState, worker: WorkerId = W1, **more: Any) -> TaskStatus:
    work = jobs.planned_work(task)
    assert work is not None
    about = {"run_key": work.definition.run_key, "fingerprint": work.fingerprint, "kind": work.definition.kind}
    return TaskStatus(**{"task": task, "state": state, "epoch": Epoch(5), "worker": worker, **about, **more})


def group(*workers: WorkerStatus, has: Mapping[WorkerId, Tasks] | None = None, **record: Any) -> StatusSnapshot:
    """So many workers, all of them members."""
    assignment = {one.worker: frozenset[TaskId]() for one in workers} | dict(has or {})
    of = record_of(assignment, config_offset=ConfigOffset(3), **record)
    return StatusSnapshot(group=of, workers={one.worker: one for one in workers})


def running(jobs: JobsSnapshot, status: StatusSnapshot, *tasks: TaskId) -> StatusSnapshot:
    """The group while each of these tasks runs where it is assigned."""
    words = {}
    for task in tasks:
        worker = status.owner_of(task)
        assert worker is not None
        words[task] = last(jobs, task, RUNNING, worker)
    return replace(status, tasks={**status.tasks, **words})


def now(jobs: JobsSnapshot, status: StatusSnapshot, **how: Any) -> Room:
    return room(jobs, status, now_ms=NOW_MS, **how)


def s(*indexes: int) -> list[TaskId]:
    return [TaskId("s", index) for index in indexes]


def b(*indexes: int) -> list[TaskId]:
    return [TaskId("b", index) for index in indexes]


@pytest.mark.parametrize(
    ("streams", "batch", "words"),
    [
        ([1, 1], [], "2 slots, 2 busy"),
        ([1], [1], "2 slots, 1 busy"),
        ([1], [], "2 slots, 1 busy, 1 to spare"),
        ([1, 1, 1], [], "2 slots, 2 busy: 1 stream waits for 1 slot"),
        ([1, 1, 2, 2, 1], [], "2 slots, 2 busy: 3 streams wait for 5 slots"),
        ([1, 1], [1] * 3, "2 slots, 2 busy: 3 tasks wait for 3 slots"),
        ([1, 1, 1], [1] * 3, "2 slots, 2 busy: 1 stream and 3 other tasks wait for 4 slots"),
    ],
)
def test_what_people_are_told(streams: Sequence[int], batch: Sequence[int], words: str) -> None:
    jobs = jobs_of(streams=streams, batch=batch)
    runs = s(*range(len(streams)))[:2]
    status = group(said(W1), has={W1: frozenset(runs)})
    assert now(jobs, running(jobs, status, *runs)).in_words == words


@pytest.mark.parametrize(
    ("slots", "wants", "lacking", "spare"),
    [
        ([1, 1], [1], 0, 1),
        ([1, 1], [2], 0, 1),
        ([2, 2], [1, 2], 0, 1),
        ([5, 4], [2, 3, 4], 0, 0),
        ([2], [9, 1], 1, 0),
        ([3, 3], [2, 2, 2], 2, 2),
        ([], [9, 1], 10, 0),
    ],
    ids=[
        "there is room",
        "nobody has as many: it takes all of one",
        "the large one first",
        "each where it leaves least",
        "nothing is free beside the one that takes all",
        "what is free is not on one worker",
        "there is no worker",
    ],
)
def test_a_task_that_finds_its_slots_free_on_one_worker_does_not_lack_them(
    slots: Sequence[int], wants: Sequence[int], lacking: int, spare: int
) -> None:
    """Whoever has it now: the next round moves it there."""
    workers = [WorkerId(f"w{number}") for number in range(len(slots))]
    jobs = jobs_of(batch=wants)
    has = {workers[0]: frozenset(b(*range(len(wants))))} if workers else {}
    found = now(jobs, group(*map(said, workers, slots), has=has))
    assert (found.lacking, found.spare, found.workers) == (lacking, spare, len(slots))


@given(slots=st.lists(st.integers(1, 9), max_size=8), tasks=st.integers(0, 80))
def test_of_tasks_that_take_one_slot_each_as_many_lack_one_as_there_are_too_few(slots: list[int], tasks: int) -> None:
    workers = [said(WorkerId(f"w{number}"), each) for number, each in enumerate(slots)]
    found = now(jobs_of(batch=[1] * tasks), group(*workers))
    assert found.lacking == found.waiting_tasks == max(0, tasks - sum(slots))
    assert found.spare == max(0, sum(slots) - tasks)


@given(slots=st.lists(st.integers(1, 9), min_size=1, max_size=6), wants=st.lists(st.integers(1, 12), max_size=12))
def test_each_free_slot_is_spare_or_taken_by_a_task_that_does_not_wait(slots: list[int], wants: list[int]) -> None:
    workers = [said(WorkerId(f"w{number}"), each) for number, each in enumerate(slots)]
    found = now(jobs_of(batch=wants), group(*workers))
    assert sum(slots) - found.spare == sum(min(each, max(slots)) for each in wants) - found.lacking
    assert found.waiting_tasks <= found.lacking


_WORDS = st.one_of(st.none(), st.tuples(st.sampled_from([*TaskState]), st.booleans()))


@given(words=st.lists(_WORDS, min_size=8, max_size=8), halted=st.sets(st.integers(0, 3)), whole=st.booleans())
def test_without_a_worker_all_that_is_configured_waits(
    words: list[tuple[TaskState, bool] | None], halted: set[int], *, whole: bool
) -> None:
    """Those that are written of, and those that are not; of this run, or of another one."""
    jobs = jobs_of(streams=[1] * 4, batch=[1, 2, 1, 3])
    tasks = [*s(*range(4)), *b(*range(4))]
    told = {
        task: last(jobs, task, word[0], run_key="r1" if word[1] else "older")
        for task, word in zip(tasks, words, strict=True)
        if word is not None
    }
    halts = {}
    for task in b(*halted):
        work = jobs.planned_work(task)
        assert work is not None
        record = TaskHaltRecord(job="b", index=task.index, run_key="r1", fingerprint=work.fingerprint, by="me", at_ms=0)
        halts[task] = PlacedTask(record, 7)
    stopped = {"s": Placed(HaltRecord(job="s", halt=Halt.STOPPED, by="me", at_ms=0), 7)} if whole else {}
    jobs = replace(jobs, task_halts=halts, halts=stopped)
    assert now(jobs, StatusSnapshot(tasks=told)).waiting_tasks == len(configured(jobs, told))


def test_unknown_slots_count_as_the_mean_and_what_such_a_worker_has_runs() -> None:
    java = WorkerId("java")
    jobs = jobs_of(batch=[1] * 5)
    status = group(said(W1, 2), said(W2, 5), has={java: frozenset(b(0, 1, 2, 3))})
    assert now(jobs, status) == Room(workers=3, slots=10, busy=3, spare=6)
    nobody_says = group(has={java: frozenset(b(0, 1, 2, 3)), BRIDGE: frozenset(b(4))})
    assert now(jobs, nobody_says) == Room(workers=2)


def test_what_runs_is_told_by_the_records_of_tasks() -> None:
    """A worker's own record is written with rounds, and many of its tasks begin and end between two of them."""
    jobs = jobs_of(batch=[1, 1, 2])
    has = {W1: frozenset(b(0, 1, 2))}
    status = running(jobs, group(said(W1, 4, running=frozenset(b(0))), has=has), *b(1, 2))
    ended = replace(status, tasks={**status.tasks, b(0)[0]: last(jobs, b(0)[0], TaskState.FINISHED)})
    assert now(jobs, ended) == Room(workers=1, slots=4, busy=3, spare=1)


def test_a_worker_that_has_adopted_more_than_its_slots_has_none_free() -> None:
    jobs = jobs_of(streams=[1, 1, 1])
    status = running(jobs, group(said(W1, 2), said(W2, 1), has={W1: frozenset(s(0, 1, 2))}), *s(0, 1, 2))
    assert now(jobs, status) == Room(workers=2, slots=3, busy=2, spare=1)


CLAIM = CheckpointClaim(key="k", process="p", number=1, lease_ms=0)


@pytest.mark.parametrize(
    ("changes", "lacking"),
    [
        ({}, 1),
        ({"retry_at_ms": NOW_MS + 1}, 0),
        ({"retry_at_ms": NOW_MS}, 1),
        ({"claim": CLAIM}, 0),
        ({"state": TaskState.STOPPED}, 1),
        ({"state": TaskState.FINISHED, "run_key": "an older run"}, 1),
    ],
    ids=["waits", "is tried again later", "is due", "waits for a checkpoint", "was stopped", "of an older run"],
)
def test_only_tasks_that_wait_for_nothing_else_lack_slots(changes: Mapping[str, Any], lacking: int) -> None:
    jobs = jobs_of(batch=[1, 1])
    status = running(jobs, group(said(W1, 1), has={W1: frozenset(b(0, 1))}), *b(0))
    word = replaced(last(jobs, b(1)[0], PENDING), **changes)
    assert now(jobs, replace(status, tasks={**status.tasks, word.task: word})).lacking == lacking


def test_slots_that_a_task_will_want_are_not_to_spare() -> None:
    jobs = jobs_of(batch=[1, 1])
    status = group(said(W1, 4), has={W1: frozenset(b(0, 1))})
    later = last(jobs, b(0)[0], PENDING, retry_at_ms=NOW_MS + 60_000)
    assert now(jobs, replace(status, tasks={later.task: later})).spare == 2


def test_lost_tasks_wait_for_their_worker_and_keep_slots_for_it() -> None:
    jobs = jobs_of(streams=[1] * 5)
    had = {W1: frozenset(s(0)), W2: frozenset(s(1, 2, 3, 4))}
    lost = {task: last(jobs, task, RUNNING, W2) for task in had[W2]}
    memory = Memory(assignment=had, deadline_ms=NOW_MS + 9_000)
    for slots, spare in ((4, 0), (8, 3)):
        status = replace(group(said(W1, slots), has={W1: had[W1]}, memory=memory), tasks=lost)
        assert now(jobs, running(jobs, status, *s(0))) == Room(workers=1, slots=slots, busy=1, spare=spare)
    for_good = replace(group(said(W1, 4), has={W1: had[W1]}), tasks=lost)
    assert now(jobs, running(jobs, for_good, *s(0))).in_words == "4 slots, 1 busy: 1 stream waits for 1 slot"


@pytest.mark.parametrize(
    "going", [{"slots": 0}, {"leaves_soon": True}, {"state": WorkerPhase.STOPPING}], ids=["drains", "leaves", "stops"]
)
def test_what_a_leaving_worker_runs_keeps_slots_elsewhere(going: Mapping[str, Any]) -> None:
    jobs = jobs_of(streams=[1, 1, 1])
    status = group(said(W1, 4), said(W2, **{"slots": 2, **going}), has={W1: frozenset(s(0)), W2: frozenset(s(1, 2))})
    found = now(jobs, running(jobs, status, *s(0, 1, 2)))
    assert (found.workers, found.spare, found.lacking) == (1, 1, 0)
    full = group(said(W1, 1), said(W2, **{"slots": 2, **going}), has={W1: frozenset(s(0)), W2: frozenset(s(1, 2))})
    assert now(jobs, running(jobs, full, *s(0, 1, 2))).lacking == 0, "they still run"


def test_paused_jobs_want_no_slots() -> None:
    paused = Placed(record=HaltRecord(job="b", halt=Halt.PAUSED, by="me", at_ms=0), offset=7)
    jobs = replace(jobs_of(batch=[1, 1]), halts={"b": paused})
    assert now(jobs, group(said(W1, 1), has={W1: frozenset(b(0, 1))})) == Room(workers=1, slots=1, spare=1)
    assert now(replace(jobs, plans={}), StatusSnapshot()) == NO_ROOM, "nor does their planner want a worker"


def test_short_waits_can_be_left_out() -> None:
    jobs = jobs_of(batch=[1, 1, 1])
    status = running(jobs, group(said(W1, 1), has={W1: frozenset(b(0, 1, 2))}), *b(0))
    ended = last(jobs, b(1)[0], TaskState.STOPPED, finished_at_ms=NOW_MS - 30_000)
    status = replace(status, tasks={**status.tasks, ended.task: ended})
    assert [now(jobs, status, waited_ms=ms).lacking for ms in (0, 30_000, 30_001, 500_000, 500_001)] == [2, 2, 1, 1, 0]


def test_where_no_worker_is_left_a_planner_needs_one() -> None:
    jobs = replace(jobs_of(streams=[1]), plans={})
    assert now(jobs, StatusSnapshot()).in_words == "no slots: 1 stream waits for 1 slot"
    assert now(jobs, group(said(W1, 0))).lacking == 1, "who drains starts none"
    assert now(jobs, group(said(W1, 1))) == Room(workers=1, slots=1, spare=1)


def test_the_coordinator_is_believed_that_all_have_gone() -> None:
    jobs = jobs_of(streams=[1, 2])
    status = running(jobs, group(said(W1, 4), has={W1: frozenset(s(0, 1))}), *s(0, 1))
    assert now(jobs, status).lacking == 0
    assert now(jobs, status.without_members()) == Room(waiting_tasks=2, waiting_streams=2, lacking=3)
    assert now(jobs, status.without_members(), waited_ms=60_000).lacking == 3


def test_a_group_without_anything_has_nothing_to_say() -> None:
    assert now(JobsSnapshot(), StatusSnapshot()) == NO_ROOM
    assert NO_ROOM.in_words == ""
    assert set(NO_ROOM.to_json().values()) == {0}
