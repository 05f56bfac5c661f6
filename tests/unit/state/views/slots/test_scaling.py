"""Who is asked to leave when a group is to have fewer workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from airflow_values import job
from group_records import record_of
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    PlanRecord,
    TaskState,
    TaskStatus,
    WorkerPhase,
    WorkerStatus,
)
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.scaling import (
    Count,
    Goal,
    ScaleError,
    UnknownWorkersError,
    all_but,
    count,
    departure,
    scale_down,
    share,
    still_there,
)
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.model import ConfigOffset, Epoch, MemberId, SubProtocol, TaskId, Tasks, WorkerId
from airflow_provider.values.replacing import replaced

_MOST = 64
JOBS = {name: job(name, max_tasks=_MOST) for name in ("batch", "warm")}
PLANNED = JobsSnapshot(
    jobs=JOBS,
    plans={
        name: PlanRecord.of(
            one, [{"i": i} for i in range(_MOST)], planned_by=WorkerId("w"), at_ms=1, stateful=name == "warm"
        )
        for name, one in JOBS.items()
    },
)


def said(worker: str, **changes: Any) -> WorkerStatus:
    return WorkerStatus(
        **{"worker": WorkerId(worker), "state": WorkerPhase.STABLE, "epoch": Epoch(5), "slots": 2, **changes}
    )


def group(has: Mapping[str, Sequence[TaskId]], running: Sequence[TaskId] = (), *records: WorkerStatus) -> Any:
    """Who has which tasks, and which of them run."""
    assignment: Mapping[WorkerId, Tasks] = {WorkerId(name): frozenset(tasks) for name, tasks in has.items()}
    tasks = {}
    for task in running:
        work = PLANNED.work_of(task)
        assert work is not None
        tasks[task] = TaskStatus(
            task=task,
            state=TaskState.RUNNING,
            epoch=Epoch(5),
            worker=WorkerId("w"),
            run_key=work.definition.run_key,
            fingerprint=work.fingerprint,
            kind=work.definition.kind,
        )
    workers = {WorkerId(name): said(name) for name in has} | {record.worker: record for record in records}
    record = record_of(assignment, members={worker: MemberId(worker) for worker in assignment})
    return PLANNED, StatusSnapshot(group=record, workers=workers, tasks=tasks)


def forty() -> dict[str, list[TaskId]]:
    return {f"w{number:02}": [TaskId("batch", number)] for number in range(40)}


def batch(*indexes: int) -> list[TaskId]:
    return [TaskId("batch", index) for index in indexes]


def warm(*indexes: int) -> list[TaskId]:
    return [TaskId("warm", index) for index in indexes]


def test_of_forty_at_eighty_percent_eight_are_asked() -> None:
    """The seed's own numbers."""
    plan = scale_down(share("80%"), *group(forty()))
    assert plan.asked == tuple(f"w{number:02}" for number in range(8))
    assert len(plan.stay) == 32
    assert plan.in_words == "8 of 40 workers, 32 stay"


@pytest.mark.parametrize(("to", "present", "asked"), [("50%", 3, 1), ("1%", 40, 39), ("99%", 200, 2), ("33.4 %", 3, 1)])
def test_what_stays_is_rounded_up(to: str, present: int, asked: int) -> None:
    has: dict[str, list[TaskId]] = {f"w{number:03}": [] for number in range(present)}
    assert len(scale_down(share(to), *group(has)).asked) == asked


def test_the_largest_stay() -> None:
    """Whatever they have to move: with their slots the others' tasks find room. Unknown slots count as the mean."""
    has = {"a": batch(0), "b": batch(1, 2), "c": [], "d": batch(3), "unknown": []}
    sizes = {"a": 1, "b": 2, "c": 16, "d": 4}
    jobs, status = group(has, batch(1, 2, 3), *(said(name, slots=slots) for name, slots in sizes.items()))
    status = replace(status, workers={name: one for name, one in status.workers.items() if name != "unknown"})
    plan = scale_down(count(1), jobs, status)
    assert plan.asked == ("a", "b", "d", "unknown")
    assert [leaver.in_words for leaver in plan.leavers[1:]] == [
        "b: has 2 slots, runs 2 of 2 tasks",
        "d: has 4 slots, runs 1 of 1 task",
        "unknown: has 5 slots, and no task",
    ]


def test_of_equal_ones_who_has_least_to_move_goes_first() -> None:
    """Tasks with state, then those that run, then all; the name decides between equals."""
    has = {
        "a": warm(0),
        "b": batch(0, 1),
        "c": batch(2, 3, 4),
        "d": batch(5, 6),
        "e": [],
        "f": batch(7, 8),
    }
    running = [*warm(0), *batch(0, 1, 2, 5, 7)]
    plan = scale_down(count(1), *group(has, running))
    assert plan.asked == ("e", "d", "f", "c", "b")
    assert [leaver.in_words for leaver in plan.leavers[:3]] == [
        "e: has 2 slots, and no task",
        "d: has 2 slots, runs 1 of 2 tasks",
        "f: has 2 slots, runs 1 of 2 tasks",
    ]
    (of_a,) = scale_down(all_but(["a"]), *group(has, running)).leavers
    assert of_a.in_words == "a: has 2 slots, runs 1 of 1 task, 1 with state"


def test_what_has_finished_need_not_be_moved() -> None:
    jobs, status = group({"a": batch(0, 1), "b": batch(2)}, batch(0, 1))
    finished = {task: replaced(last, state=TaskState.FINISHED) for task, last in status.tasks.items()}
    assert scale_down(count(1), jobs, replace(status, tasks=finished)).asked == ("a",)


@pytest.mark.parametrize(
    "going",
    [
        said("w00", slots=0),
        said("w00", leaves_soon=True),
        said("w00", state=WorkerPhase.STOPPING),
    ],
    ids=["drains", "leaves soon", "stops"],
)
def test_who_leaves_already_counts_as_one_of_them_and_is_not_asked_again(going: WorkerStatus) -> None:
    plan = scale_down(share("95%"), *group(forty(), (), going))
    assert plan.asked == ("w01",)
    assert plan.going == {"w00"}
    assert plan.in_words == "1 of 40 workers, 1 more leaves already, 38 stay"
    with pytest.raises(ScaleError, match=r"^no worker is left to ask: it has 40 workers, of which 1 leaves already, "):
        scale_down(count(39), *group(forty(), (), going))


def test_who_has_left_is_none_and_who_stands_back_is_one() -> None:
    has = {"a": batch(0), "b": batch(1), "c": batch(2)}
    left, back = said("a", state=WorkerPhase.LEFT), said("z", state=WorkerPhase.LEFT, condition="no master", slots=9)
    plan = scale_down(count(2), *group(has, (), left, back))
    assert plan.present == {"b", "c", "z"}
    assert plan.asked == ("z",), "nobody can use its slots, and it has nothing to move"


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        (count(3), r"^no worker is left to ask: it has 3 workers, and 3 stay$"),
        (count(4), r"^it has 3 workers, and 4 would be more: .* starts none$"),
        (share("90%"), r"^no worker is left to ask: it has 3 workers, and 90% of 3, rounded up, are 3$"),
        (all_but("abc"), r"^no worker would stay: to have all workers leave, use cospark"),
    ],
)
def test_what_having_workers_leave_does_not_bring_about_is_refused(goal: Goal, message: str) -> None:
    with pytest.raises(ScaleError, match=message):
        scale_down(goal, *group({"a": batch(0), "b": [], "c": []}))


def test_more_than_stay_by_now_cannot_stay() -> None:
    with pytest.raises(ScaleError, match=r"^it has 40 workers, of which 1 leaves already, and 40 would be more: "):
        scale_down(count(40), *group(forty(), (), said("w00", slots=0)))


def test_who_is_named_and_not_there_is_named_in_the_refusal() -> None:
    with pytest.raises(UnknownWorkersError, match=r"^x, y: not in it; in it: a, b$"):
        scale_down(all_but(["a", "y", "x"]), *group({"a": [], "b": []}))
    with pytest.raises(ScaleError, match=r"^no worker is left to ask: a leaves already$"):
        scale_down(all_but(["a"]), *group({"a": [], "b": []}, (), said("a", slots=0)))
    with pytest.raises(ScaleError, match=r"^no worker would stay: "):
        scale_down(all_but(["a"]), *group({"a": [], "b": []}, (), said("b", slots=0)))


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (
            SubProtocol.EXTENSIBLE,
            "they finish their batch tasks, and leave when others have learned and taken over the rest",
        ),
        (SubProtocol.SESSIONED, "this group learns no tasks: they start no more tasks"),
    ],
)
def test_what_they_do_then_depends_on_the_groups_protocol(protocol: SubProtocol, words: str) -> None:
    jobs, status = group({"a": batch(0), "b": []})
    assert status.group is not None
    plan = scale_down(count(1), jobs, replace(status, group=replace(status.group, protocol=protocol)))
    assert plan.what_follows.startswith(words)
    assert plan.to_json()["learns"] == (protocol is SubProtocol.EXTENSIBLE)


def test_a_group_without_workers_has_nobody_to_be_asked() -> None:
    with pytest.raises(ScaleError, match=r"^it has no worker$"):
        scale_down(count(1), JobsSnapshot(), StatusSnapshot())


@pytest.mark.parametrize("text", ["80", "", "x%", "-5%", "1e1%", "%", "8 0%", "5%%", "9999999999%", "٣%", "nan%"])
def test_what_is_no_percentage_is_refused(text: str) -> None:
    with pytest.raises(ScaleError, match="must be a percentage of the present workers, such as 80%"):
        share(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: share("0%"), "would leave no worker"),
        (lambda: share("0.0%"), "would leave no worker"),
        (lambda: share("100%"), "must be less than 100%"),
        (lambda: share("140%"), "starts none"),
        (lambda: count(0), "would leave no worker"),
        (lambda: count(-1), "would leave no worker"),
        (lambda: all_but([]), "name the workers that leave"),
    ],
)
def test_a_goal_that_no_group_can_come_to_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ScaleError, match=message):
        make()


# ---- whatever the group is like

_TASKS = st.lists(st.tuples(st.sampled_from(sorted(JOBS)), st.integers(0, _MOST - 1)), unique=True, max_size=20)


@st.composite
def _groups(draw: st.DrawFn) -> tuple[JobsSnapshot, StatusSnapshot]:
    names = [f"w{number}" for number in range(draw(st.integers(1, 12)))]
    has: dict[str, list[TaskId]] = {name: [] for name in names}
    tasks = [TaskId(*each) for each in draw(_TASKS)]
    for task in tasks:
        has[draw(st.sampled_from(names))].append(task)
    running = [task for task in tasks if draw(st.booleans())]
    going = [said(name, slots=draw(st.integers(0, 5))) for name in names]
    made: tuple[JobsSnapshot, StatusSnapshot] = group(has, running, *going)
    return made


_GOALS = st.one_of(
    st.integers(1, 14).map(count),
    st.fractions(Fraction(1, 100), Fraction(99), max_denominator=100).map(lambda one: share(f"{float(one):.2f}%")),
)


@pytest.mark.slow
@given(of=_groups(), goal=_GOALS)
def test_so_many_stay_as_were_wanted_or_nobody_is_asked(of: tuple[JobsSnapshot, StatusSnapshot], goal: Goal) -> None:
    jobs, status = of
    assert status.group is not None
    present = len(status.group.members)
    going = sum(worker.drains for worker in status.workers.values())
    wanted = goal.workers if isinstance(goal, Count) else ceil(present * goal.percent / 100)  # type: ignore[union-attr]
    try:
        plan = scale_down(goal, jobs, status)
    except ScaleError:
        assert wanted >= present - going
        return
    assert len(plan.stay) == wanted >= 1
    assert len(plan.asked) == len(set(plan.asked)) == present - going - wanted > 0
    assert plan.stay | plan.going | set(plan.asked) == plan.present
    assert not plan.going & set(plan.asked)


@given(of=_groups(), goal=_GOALS, more=st.integers(0, 1000))
def test_nobody_who_is_asked_is_larger_or_has_more_to_move_than_who_stays(
    of: tuple[JobsSnapshot, StatusSnapshot], goal: Goal, more: int
) -> None:
    jobs, status = of
    try:
        plan = scale_down(goal, jobs, status)
    except ScaleError:
        return
    everybody = {leaver.worker: leaver for worker in plan.stay for leaver in _of(worker, jobs, status)}
    assert all(
        asked[1:] + asked[:1] <= staying[1:] + staying[:1] for asked in plan.leavers for staying in everybody.values()
    )
    shuffled = dict(sorted(status.workers.items(), key=lambda item: hash((item[0], more))))
    assert scale_down(goal, jobs, replace(status, workers=shuffled)) == plan, "the order of records decides nothing"


def _of(worker: WorkerId, jobs: JobsSnapshot, status: StatusSnapshot) -> Any:
    """What a worker would have to move; of the only one that stays nothing is known."""
    try:
        return scale_down(all_but([worker]), jobs, status).leavers
    except ScaleError:
        return ()


# ---- and then


def test_who_was_asked_is_there_until_it_has_left_or_taken_its_wish_back() -> None:
    jobs, status = group({"a": [], "b": [], "c": [], "d": []})
    asked = tuple(map(WorkerId, "abc"))
    wishes = {
        worker: ControlRecord(worker=worker, action=ControlAction.LEAVE_SOON, at_ms=1) for worker in map(WorkerId, "ab")
    }
    jobs = replace(jobs, controls=wishes, offset=ConfigOffset(9))
    status = replace(
        status,
        workers={
            **status.workers,
            WorkerId("a"): said("a", leaves_soon=True, slots=0),
            WorkerId("b"): said("b", state=WorkerPhase.LEFT, leaves_soon=True),
        },
    )
    assert still_there(asked, jobs, status) == {"a"}, "c has left, and come again since"
    assert departure(asked, jobs, status) == {"left": ["b", "c"], "still_there": ["a"], "drained": ["a"]}
