"""When a leader rebalances the group because a slot is free, or because a worker will not start its waiting tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from group_records import record_of
from learner_group import LearnerGroup, changed, stopped
from led_group import EPOCH, Group, record_after

from airflow_provider.assignment.model import Memory
from airflow_provider.state.records import PlanRecord, TaskKind, TaskState, WorkerPhase, WorkerStatus
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.free_slots import spare_capacity
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.join_reasons import HAVE_STOPPED, OTHERS_BEGAN
from airflow_provider.values.model import (
    NO_TASKS,
    MemberId,
    SubProtocol,
    TaskId,
    WorkerId,
    planner_of,
)
from airflow_provider.values.replacing import replaced

A0, A1, B0 = TaskId("a", 0), TaskId("a", 1), TaskId("b", 0)
W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")


@pytest.mark.parametrize(
    "workers",
    [
        {"w1": "r p", "w2": ""},
        {"w1": "r p", "w2": "f"},
        {"w1": "p p", "w2": ""},
        {"w1": "r p", "w2": "r p", "w3": ""},
        {"w1": "r r p", "w2": "r r", "w3": ""},
        {"w1": "s p", "w2": "f f"},
        {"w1": "r r r p p p", "w2": "f f f"},
        {"w1": "r r p", "w2": "", "w3": ""},
        {"w1": "r r p", "w2": "r r", "w3": "r r", "w4": "", "w5": ""},
    ],
)
def test_waiting_tasks_may_move_to_a_worker_without_tasks(workers: dict[str, str]) -> None:
    group = Group(workers)
    assert spare_capacity(group.jobs, group.status, wall_ms=0)


@pytest.mark.parametrize(
    ("workers", "why"),
    [
        ({"w1": "r p", "w2": "r"}, "nobody is dry"),
        ({"w1": "r p", "w2": "."}, "what w2 was just given has no record yet"),
        ({"w1": "r r", "w2": ""}, "nothing waits: a running task would be stopped"),
        ({"w1": "s s", "w2": ""}, "nor is a stream stopped for it"),
        ({"w1": "r", "w2": "r", "w3": ""}, "one task each"),
        ({"w1": "f p", "w2": ""}, "the waiting one is about to start"),
        ({"w1": "r . ", "w2": ""}, "it isn't known whether it waits"),
        ({"w1": "r p"}, "alone"),
        ({"w1": "f", "w2": "f"}, "all done"),
    ],
)
def test_there_is_no_rebalance_that_would_not_help(workers: dict[str, str], why: str) -> None:
    group = Group(workers)
    assert not spare_capacity(group.jobs, group.status, wall_ms=0), why


def test_there_is_no_rebalance_for_a_learner_that_would_get_no_other_task() -> None:
    """Otherwise the group would rebalance for nothing, again and again, until the task has been learned."""
    said = {W2: WorkerStatus(worker=W2, state=WorkerPhase.STABLE, epoch=EPOCH, slots=2)}
    group = Group({"w1": "r r p", "w2": ""})
    assert spare_capacity(group.jobs, replace(group.status, workers=said), wall_ms=0)
    learns = replace(group.record, learning={W2: frozenset({A0})}, learned={W1: frozenset({A0})})
    assert not spare_capacity(group.jobs, replace(group.status, workers=said, group=learns), wall_ms=0)
    others = Group({"w1": "r r p p", "w2": ""})
    learns = replace(others.record, learning={W2: frozenset({A0})}, learned={W1: frozenset({A0})})
    assert spare_capacity(others.jobs, replace(others.status, workers=said, group=learns), wall_ms=0), (
        "w1 would have 3 of 4"
    )


@pytest.mark.parametrize(("slots", "helped"), [(1, True), (0, False)], ids=["free", "it drains"])
def test_a_draining_worker_gets_nothing_for_its_free_slots(slots: int, helped: bool) -> None:
    group = Group({"w1": "r p", "w2": ""})
    said = WorkerStatus(worker=W2, state=WorkerPhase.STABLE, epoch=EPOCH, slots=slots)
    assert bool(spare_capacity(group.jobs, replace(group.status, workers={W2: said}), wall_ms=0)) is helped


@pytest.mark.parametrize(
    ("workers", "member", "helped", "why"),
    [
        ({"w1": "r", "w2": "r p"}, "w2", True, "w1 can start what waits there"),
        ({"w1": "r r", "w2": "r"}, "w2", False, "nothing waits there"),
        ({"w2": "r p"}, "w2", False, "there is nobody else"),
        ({"w1": "r", "w2": "r p"}, "another process", False, "a process that is gone has said it"),
    ],
)
def test_waiting_tasks_of_a_draining_worker_go_to_others(
    workers: dict[str, str], member: str, helped: bool, why: str
) -> None:
    group = Group(workers)
    drains = WorkerStatus(
        worker=W2, state=WorkerPhase.STABLE, epoch=EPOCH, slots=0, member_id=MemberId(member), owned=frozenset()
    )
    busy = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=EPOCH, slots=1)
    said = {W2: drains, W1: busy}
    assert bool(spare_capacity(group.jobs, replace(group.status, workers=said), wall_ms=0)) is helped, why


@pytest.mark.parametrize(("slots", "helped"), [(1, True), (2, True), (3, False)])
def test_tasks_without_a_record_wait_if_their_worker_has_more_than_free_slots(slots: int, helped: bool) -> None:
    """One of the two tasks without a record would move; with three slots, both are about to start."""
    group = Group({"w1": "r . .", "w2": ""})
    said = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=EPOCH, slots=slots)
    assert bool(spare_capacity(group.jobs, replace(group.status, workers={W1: said}), wall_ms=0)) is helped


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "slots", "helped", "why"),
    [
        ({"w1": "s s p", "w2": "s"}, 2, True, "streams never end: what waits behind them would wait for ever"),
        ({"w1": "r r p", "w2": "r"}, 2, True, "w2 has a slot to spare"),
        ({"w1": "r r p", "w2": "r r", "w3": "r"}, 2, True, "w3 has"),
        ({"w1": "r p p", "w2": "r"}, 1, False, "no slot is free: it would wait there, too"),
        ({"w1": "r r p", "w2": "r ."}, 2, False, "w2 is about to start the other one"),
        ({"w1": "r r p", "w2": "r r"}, 4, False, "both have their share"),
        ({"w1": "r r r", "w2": "r"}, 3, False, "nothing waits: a running task would be stopped"),
        ({"w1": "r2 p p", "w2": "r2"}, 2, False, "what w2 runs takes both of its slots"),
        ({"w1": "r2 p p", "w2": "r2"}, 3, True, "w2 has one to spare"),
        ({"w1": "r4 . .", "w2": ""}, 4, True, "what w1 runs takes all of its slots: the others wait there"),
        ({"w1": "r . .", "w2": ""}, 4, False, "both are about to start there"),
        ({"w1": "r r p4 .", "w2": "", "w3": ""}, 4, True, "what waits for four slots holds up the other one"),
        ({"w1": "r r p9 .", "w2": "", "w3": ""}, 4, True, "as does what wants more than there are"),
        ({"w1": "r r p2 . .", "w2": ""}, 4, False, "there are two: it waits for something else"),
        ({"w1": "r p p", "w2": "r4"}, 4, False, "what w2 runs takes all of its slots"),
        ({"w1": "r r p", "w2": "r2"}, 2, False, "the same where they have as many tasks"),
    ],
)
def test_waiting_tasks_may_move_to_a_worker_with_a_free_slot(
    workers: dict[str, str], slots: int, helped: bool, why: str
) -> None:
    group = Group(workers)
    names = [WorkerId(worker) for worker in workers]
    said = {name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=EPOCH, slots=slots) for name in names}
    assert bool(spare_capacity(group.jobs, replace(group.status, workers=said), wall_ms=0)) is helped, why


@pytest.mark.parametrize(
    "more",
    [
        {"revoked": {W1: frozenset({A1})}},
        {"delay_ms": 1_000},
        {"memory": Memory(deadline_ms=1)},
        {"memory": Memory(awaited={W2: 1})},
    ],
)
def test_there_is_no_rebalance_while_another_round_follows(more: dict[str, Any]) -> None:
    group = Group({"w1": "r p", "w2": ""}, **more)
    assert not spare_capacity(group.jobs, group.status, wall_ms=0)


def test_there_is_no_rebalance_for_a_leaving_worker() -> None:
    """It would get nothing, and the group would rebalance again and again."""
    group = Group({"w1": "r p", "w2": ""}, leaving_soon=frozenset({W2}))
    assert not spare_capacity(group.jobs, group.status, wall_ms=0)


def test_waiting_tasks_move_to_workers_that_stay_even_if_another_leaves() -> None:
    group = Group({"w1": "r p p", "w2": "", "w3": "r"}, leaving_soon=frozenset({WorkerId("w3")}))
    assert spare_capacity(group.jobs, group.status, wall_ms=0)


@pytest.mark.parametrize(
    ("leaver", "helped", "why"),
    [
        ("r r r r r r", True, "what it finishes is in nobody's share"),
        ("s s s s s s", False, "its streams will be theirs"),
    ],
)
def test_waiting_tasks_move_however_many_batch_tasks_a_leaving_worker_finishes(
    leaver: str, helped: bool, why: str
) -> None:
    group = Group({"w1": "r p p", "w2": "", "w3": leaver}, leaving_soon=frozenset({W3}))
    assert bool(spare_capacity(group.jobs, group.status, wall_ms=0)) is helped, why


@pytest.mark.parametrize(
    ("workers", "retry_at_ms", "helped", "why"),
    [
        ({"w1": "r", "w3": "r p"}, 60_000, True, "w3 need not stay for it"),
        ({"w1": "r", "w3": "r p"}, None, False, "it is about to start, or a round takes it anyway"),
        ({"w3": "r p"}, 60_000, False, "there is nobody else"),
    ],
)
def test_a_leaving_worker_does_not_stay_to_try_a_failed_task_again(
    workers: dict[str, str], retry_at_ms: int | None, helped: bool, why: str
) -> None:
    group = Group(workers, leaving_soon=frozenset({W3}))
    waits = TaskId("a", len(group.status.tasks) - 1)
    tasks = {**group.status.tasks, waits: replaced(group.status.tasks[waits], retry_at_ms=retry_at_ms)}
    assert bool(spare_capacity(group.jobs, replace(group.status, tasks=tasks), wall_ms=0)) is helped, why


@pytest.mark.parametrize(
    ("learns", "helped", "why"),
    [
        ("", True, "w2 has nothing"),
        ("a0", True, "when that has moved, w1 has three still"),
        ("a0 a1", False, "when those have moved, each has two"),
    ],
)
def test_learned_tasks_count_as_if_they_had_moved(learns: str, helped: bool, why: str) -> None:
    """The assignor counts them in the same way: otherwise it would be asked again and again, and move nothing."""
    learned = {W1: frozenset(TaskId("a", int(name[1:])) for name in learns.split())}
    group = Group(
        {"w1": "r r p p", "w2": ""}, protocol=SubProtocol.EXTENSIBLE, learning={W2: learned[W1]}, learned=learned
    )
    jobs = replace(group.jobs, plans={"a": replace(group.jobs.plans["a"], stateful=True)})
    said = {name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=EPOCH, slots=2) for name in (W1, W2)}
    assert bool(spare_capacity(jobs, replace(group.status, workers=said), wall_ms=0)) is helped, why


def test_a_free_slot_gets_a_task_with_state_that_waits_although_another_worker_has_as_many() -> None:
    """w1 and w2 have two each, and w3 none: one of them is to give up one."""
    group = Group({"w1": "r r", "w2": "r p", "w3": ""}, protocol=SubProtocol.EXTENSIBLE)
    jobs = replace(group.jobs, plans={"a": replace(group.jobs.plans["a"], stateful=True)})
    said = {W1: WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=EPOCH, slots=2)}
    assert spare_capacity(jobs, replace(group.status, workers=said), wall_ms=0)


@pytest.mark.parametrize(
    ("workers", "slots", "helped", "why"),
    [
        ({"w1": "r r p", "w2": "r r"}, (2, 4), True, "of five, w1 is to have one or two"),
        ({"w1": "r r p", "w2": "r r r r"}, (2, 4), False, "all slots are taken"),
        ({"w1": "r r r r p", "w2": "r"}, (4, 2), True, "of six, w2 is to have two"),
        ({"w1": "r r r p p", "w2": "r"}, (3, 2), True, "of six, w1 is to have three or four"),
        ({"w1": "r r r p", "w2": "r"}, (3, 2), True, "of five, w1 is to have three"),
        ({"w1": "r r r r p", "w2": "r", "w3": ""}, (4, 1, 1), True, "of six, each is to have its slots"),
        ({"w1": "r r r r", "w2": "r"}, (4, 2), False, "nothing waits"),
    ],
)
def test_a_free_slot_gets_a_task_with_state_in_proportion_to_slots(
    workers: dict[str, str], slots: tuple[int, ...], helped: bool, why: str
) -> None:
    group = Group(workers, protocol=SubProtocol.EXTENSIBLE)
    jobs = replace(group.jobs, plans={"a": replace(group.jobs.plans["a"], stateful=True)})
    said = {
        name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=EPOCH, slots=number)
        for name, number in zip((W1, W2, W3), slots, strict=False)
    }
    assert bool(spare_capacity(jobs, replace(group.status, workers=said), wall_ms=0)) is helped, why


@pytest.mark.parametrize(("tasks", "helped"), [("r . p", False), ("r p p", True)], ids=["may start", "waits"])
def test_a_task_that_is_about_to_start_is_not_taken_because_a_learned_one_waits(tasks: str, helped: bool) -> None:
    """Of w1, the second task would move to w3; the third one goes to w2, which learns it."""
    learned = frozenset({TaskId("a", 2)})
    group = Group(
        {"w1": tasks, "w2": "", "w3": ""},
        protocol=SubProtocol.EXTENSIBLE,
        learning={W2: learned},
        learned={W1: learned},
    )
    jobs = replace(group.jobs, plans={"a": replace(group.jobs.plans["a"], stateful=True)})
    said = {W1: WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=EPOCH, slots=2)}
    assert bool(spare_capacity(jobs, replace(group.status, workers=said), wall_ms=0)) is helped


@pytest.mark.parametrize(
    ("workers", "slots", "helped", "why"),
    [
        ({"w1": "r p", "w2": "r"}, 2, True, "w1 has three tasks, w2 one"),
        ({"w1": "r r", "w2": "r"}, 2, False, "nothing waits: the task without state would be stopped"),
        ({"w1": "r p", "w2": "r"}, 1, False, "no slot is free"),
        ({"w1": "r p", "w2": "r r"}, 3, False, "w1 would have fewer"),
        ({"w1": "r ."}, 2, False, "alone"),
    ],
)
def test_a_task_with_state_moves_if_it_waits_behind_one_without(
    workers: dict[str, str], slots: int, helped: bool, why: str
) -> None:
    """The tasks of job a have state; w1 also runs a task without."""
    jobs, status = with_state_but(TaskState.RUNNING, workers, slots=slots)
    assert bool(spare_capacity(jobs, status, wall_ms=0)) is helped, why


@pytest.mark.parametrize(
    ("state", "record", "helped", "why"),
    [
        (TaskState.PENDING, {}, True, "w2 learns one that w1 runs: then the one without state can start"),
        (TaskState.RUNNING, {}, False, "nothing waits"),
        (TaskState.PENDING, {"learning": {W2: frozenset({A0})}, "learned": {W1: frozenset({A0})}}, False, "it does"),
        (TaskState.PENDING, {"given_up": {W2: frozenset({A0})}}, False, "it can't"),
        (TaskState.PENDING, {"leaving_soon": frozenset({W2})}, False, "it leaves"),
    ],
)
def test_a_task_behind_tasks_with_state_gets_room_by_a_lesson(
    state: TaskState, record: dict[str, Any], helped: bool, why: str
) -> None:
    """Counted as if those with state were spread already, it is where it should be."""
    slots = 3 if state is TaskState.RUNNING else 2
    jobs, status = with_state_but(state, {"w1": "r r", "w2": ""}, slots=slots, **record)
    assert bool(spare_capacity(jobs, status, wall_ms=0)) is helped, why


@pytest.mark.parametrize(
    ("waits", "helped"), [("p", True), ("r", False)], ids=["a stream waits behind a batch task", "nothing waits"]
)
def test_a_task_gets_room_by_a_lesson_though_those_with_state_are_uneven_elsewhere(waits: str, helped: bool) -> None:
    """While w2 has two with state, none is misplaced, and nothing waits behind these. A lesson makes them even."""
    workers = {"w1": waits, "w2": "r r", "w3": "", "w4": ""}
    jobs, status = with_state_but(TaskState.RUNNING, workers, slots=2)
    assert bool(spare_capacity(jobs, status, wall_ms=0)) is helped


def with_state_but(
    state: TaskState, workers: dict[str, str], *, slots: int, **record: Any
) -> tuple[JobsSnapshot, StatusSnapshot]:
    """A group whose tasks have state, but for one more of w1.

    :param state: of that one
    :param record: what else the last round has decided
    """
    group = Group(workers, protocol=SubProtocol.EXTENSIBLE)
    beside = Group({"w1": "r"})
    job = replace(beside.job, name="b")
    plan = PlanRecord.of(job, [{"i": 0, "slots": 1}], planned_by=W1, at_ms=0)
    jobs = replace(
        group.jobs,
        jobs={**group.jobs.jobs, "b": job},
        plans={"a": replace(group.jobs.plans["a"], stateful=True), "b": plan},
    )
    owned = {**group.record.assignment, W1: group.record.owned_by(W1) | {B0}}
    status = replace(
        group.status,
        group=replace(group.record, assignment=owned, **record),
        tasks={**group.status.tasks, B0: replaced(beside.status.tasks[A0], task=B0, state=state)},
        workers={name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=EPOCH, slots=slots) for name in owned},
    )
    return jobs, status


@pytest.mark.parametrize("state", [False, True])
def test_others_are_shared_out_by_their_size_whether_or_not_a_task_has_state(state: bool) -> None:
    """What waits at w1 has a slot at w2."""
    group = Group({"w1": "s4 p", "w2": "s"}, protocol=SubProtocol.EXTENSIBLE)
    job = replace(group.job, name="b")
    plan = replace(PlanRecord.of(job, [{}], planned_by=W1, at_ms=0), stateful=state)
    running = replaced(group.status.tasks[A0], task=B0, worker=W3, fingerprint=plan.fingerprints[0])
    workers = {
        name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=EPOCH, slots=slots, member_id=MemberId(name))
        for name, slots in ((W1, 4), (W2, 4), (W3, 0))
    }
    status = replace(
        group.status,
        group=replace(
            group.record,
            assignment={**group.record.assignment, W3: frozenset({B0})},
            members={name: MemberId(name) for name in workers},
        ),
        tasks={**group.status.tasks, B0: running},
        workers=workers,
    )
    jobs = replace(group.jobs, jobs={**group.jobs.jobs, "b": job}, plans={**group.jobs.plans, "b": plan})
    assert spare_capacity(jobs, status, wall_ms=0)


def test_a_free_slot_gets_a_task_with_state_that_waits_although_those_with_state_are_even() -> None:
    """w1 has one more task of each kind; what has not started moves, and the one without state runs on."""
    group = LearnerGroup({"a": 3, "b": 1}, stateful={"a"})
    group.planners = False
    group.join("w1", owning=frozenset({A0, A1, B0}))
    group.join("w2", owning=frozenset({TaskId("a", 2)}))
    group.pending = frozenset({A1})
    group.stays = frozenset(group.running) - group.pending
    assert stopped(group.rebalance()) == frozenset({A1})
    group.stays = NO_TASKS
    assert group.rebalance().assigned[W2] == frozenset({A1})
    assert not changed(group.rebalance())


@pytest.mark.parametrize(("tasks", "helped"), [("s", True), ("s s", False)], ids=["a slot is free", "none is"])
def test_a_stream_that_waits_behind_batch_tasks_of_known_cost_gets_a_free_slot(tasks: str, helped: bool) -> None:
    """Both workers have one stream, but on w1 batch tasks have the slots."""
    streams, batch = Group({"w1": "p", "w2": tasks}), Group({"w1": "r r"})
    jobs = {"a": replace(streams.job, kind=TaskKind.STREAMING), "b": replace(batch.job, name="b")}
    configs: dict[str, list[dict[str, int]]]
    configs = {"a": [{} for _ in streams.status.tasks], "b": [{"weight": 60}, {"weight": 50}]}
    plans = {job: PlanRecord.of(jobs[job], configs[job], planned_by=W1, at_ms=0) for job in jobs}
    said = {
        TaskId(job, index): replaced(last, task=TaskId(job, index), fingerprint=plans[job].fingerprints[index])
        for job, group in (("a", streams), ("b", batch))
        for index, last in enumerate(group.status.tasks.values())
    }
    owned = {**streams.record.assignment, W1: frozenset({A0, B0, TaskId("b", 1)})}
    workers = {name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=EPOCH, slots=2) for name in owned}
    status = StatusSnapshot(group=record_of(owned), tasks=said, workers=workers)
    assert bool(spare_capacity(JobsSnapshot(jobs=jobs, plans=plans), status, wall_ms=0)) is helped


def test_a_waiting_planner_is_no_load() -> None:
    group = Group({"w1": "r", "w2": ""})
    owned = {W1: group.record.owned_by(W1) | {planner_of("a")}, W2: frozenset()}
    assert not spare_capacity(group.jobs, replace(group.status, group=record_of(owned)), wall_ms=0)


@pytest.mark.parametrize(
    "workers",
    [
        {"w1": "r p", "w2": ""},
        {"w1": "r r p", "w2": "r r", "w3": ""},
        {"w1": "r r p", "w2": "", "w3": ""},
        {"w1": "s s s p p", "w2": "", "w3": ""},
        {"w1": "r r p", "w2": "r r", "w3": "r r", "w4": "", "w5": ""},
    ],
)
def test_requested_rounds_move_waiting_tasks_and_no_running_ones(workers: dict[str, str]) -> None:
    """The leader's own assignor, asked with what the workers would report."""
    group = Group(workers)
    reason = spare_capacity(group.jobs, group.status, wall_ms=0)
    assert reason
    pending = {task for task, told in group.status.tasks.items() if told.state is TaskState.PENDING}
    revoking = record_after(group, reason=reason)
    assert NO_TASKS.union(*revoking.revoked.values()) == pending
    group.status = replace(group.status, group=revoking)
    placing = record_after(group, reason=OTHERS_BEGAN)
    assert not placing.revokes
    assert placing.delay_ms == 0
    assert placing.because == f"{reason}: {HAVE_STOPPED}"
    assert not pending & placing.owned_by(W1)
    assert NO_TASKS.union(*placing.assignment.values()) == group.status.tasks.keys()


def test_a_worker_that_joins_meanwhile_gets_its_share_of_running_tasks() -> None:
    group = Group({"w1": "r r r r p", "w2": ""})
    reason = spare_capacity(group.jobs, group.status, wall_ms=0)
    assert reason
    assert not record_after(group, reason=reason).revoked.get(W1, NO_TASKS) & group.running
    joined = record_after(group, reason=reason, joins=(WorkerId("w3"),))
    assert joined.revoked[W1] & group.running
