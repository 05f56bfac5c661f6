"""What a job author writes, without a worker and without Spark."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import pickle
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider.spark.job import (
    FencedError,
    FunctionJob,
    JobContext,
    SparkJob,
    TaskContext,
    is_stateful,
    spark_job,
)
from airflow_provider.spark.job.checkpoint_folder import (
    CheckpointError,
    checkpoint_location,
    checkpoint_root,
    usable_root,
)
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.state.records.json_value import NotJsonError, to_json_value, to_small_json_value
from airflow_provider.values.model import TaskId

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SESSION: Any = object()
ROWS: Any = object()


def job_context(max_tasks: int = 3, **config: object) -> JobContext:
    return JobContext(name="ingest", config=config, max_tasks=max_tasks, run_key="monday")


def task_context(**changes: object) -> TaskContext:
    values: dict[str, Any] = {
        "job": "ingest",
        "index": 0,
        "config": {},
        "epoch": 1,
        "checkpoint_location": "/checkpoints/0",
    }
    return TaskContext(**{**values, **changes})


# --- a rehearsal


class Stopped:
    """A guard of what has been told to stop."""

    stopping = True


def steps_of(done: list[str]) -> Iterator[float]:
    try:
        yield 0.5
        yield 1.0
    finally:
        done.append("closed")


def test_a_rehearsal_that_nobody_iterates_over_says_so_and_where(caplog: pytest.LogCaptureFixture) -> None:
    task = task_context()
    task.rehearse(ROWS)
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]  # CPython has frames
    assert f"{__file__}:{line}: task.rehearse(...) did nothing" in caplog.text
    assert "`yield from task.rehearse(...)`" in caplog.text


def test_a_rehearsal_is_iterated_over_and_closed_as_a_generator(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    task = task_context(rehearsing=lambda *_: steps_of(done))

    def warm_up() -> Iterator[float]:
        yield from task.rehearse(ROWS)

    assert list(warm_up()) == [0.5, 1.0]
    begun = warm_up()
    assert next(begun) == 0.5
    assert isinstance(begun, Generator)
    begun.close()
    assert done == ["closed", "closed"]
    assert caplog.text == ""


def test_a_warm_up_that_was_stopped_need_not_come_to_its_rehearsal(caplog: pytest.LogCaptureFixture) -> None:
    task_context(guard=Stopped()).rehearse(ROWS)
    assert caplog.text == ""


# --- the decorator


def test_a_bare_decorated_function_is_a_job_of_one_task_with_the_jobs_config() -> None:
    @spark_job
    def ingest(spark: SparkSession, task: TaskContext) -> object:
        """Ingest it."""
        return (spark, task)

    assert isinstance(ingest, FunctionJob)
    assert ingest.__name__ == "ingest"
    assert ingest.__doc__ == "Ingest it."
    assert make_plan(ingest, job_context(table="orders")) == [{"table": "orders"}]
    task = task_context()
    assert ingest.run(SESSION, task) == (SESSION, task)
    assert ingest(SESSION, task) == (SESSION, task)


def test_a_plan_can_be_a_function_of_the_job() -> None:
    @spark_job(plan=lambda job: [{"table": name, "run": job.run_key} for name in job.config["tables"]])
    def ingest(spark: SparkSession, task: TaskContext) -> object:
        return None

    expected = [{"table": "a", "run": "monday"}, {"table": "b", "run": "monday"}]
    assert make_plan(ingest, job_context(tables=["a", "b"])) == expected


def test_a_plan_can_be_the_list_itself_which_stays_as_it_is() -> None:
    configs = [{"month": 1}, {"month": 2}]

    @spark_job(plan=configs)
    def clean(spark: SparkSession, task: TaskContext) -> object:
        return None

    make_plan(clean, job_context())[0]["month"] = 12
    assert make_plan(clean, job_context()) == [{"month": 1}, {"month": 2}]
    assert configs == [{"month": 1}, {"month": 2}]


class Warm(SparkJob):
    def warm_up(self, spark: SparkSession, task: TaskContext) -> Iterator[float]:
        yield 0.5


class Cold(SparkJob):
    warm_up = None


@spark_job(warm_up=lambda spark, task: None)
def warm(spark: SparkSession, task: TaskContext) -> None: ...


@spark_job(warm_up=None)
def cold(spark: SparkSession, task: TaskContext) -> None: ...


@spark_job
def bare(spark: SparkSession, task: TaskContext) -> None: ...


def test_a_job_is_stateful_if_it_has_a_warm_up_and_otherwise_leaves_that_to_its_kind() -> None:
    assert [is_stateful(job) for job in (Warm(), warm)] == [True, True]
    assert [is_stateful(job) for job in (Cold(), cold)] == [False, False]
    assert [is_stateful(job) for job in (SparkJob(), bare)] == [None, None]


def test_a_job_without_run_says_what_is_missing() -> None:
    class Empty(SparkJob):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty must define run\(self, spark, task\)"):
        Empty().run(SESSION, task_context())


# --- plans


class Planned(SparkJob):
    def __init__(self, plan: Any) -> None:
        self._plan = plan

    def plan(self, job: JobContext) -> Any:
        return self._plan


def test_a_plan_may_be_empty() -> None:
    assert make_plan(Planned([]), job_context()) == []


def test_a_plan_is_what_will_be_read_back_from_the_topic() -> None:
    assert make_plan(Planned([{"range": (1, 2)}]), job_context()) == [{"range": [1, 2]}]


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (None, "must be a list of task configurations, not a NoneType"),
        ({"table": "a"}, "must be a list of task configurations, not a dict"),
        ([{}, ["a"]], r"has at \[1\] a list; each task's configuration is a dict"),
        ([{"day": {1, 2}}], r"has at \[0\] what JSON cannot carry: \$.day is a builtins.set"),
        ([{1: "a"}], r"\$ has the key 1; keys must be strings"),
        ([{"x": [10**4_300]}], r"\$.x\[0\] is a whole number of 14285 bits, .*; write it as text"),
        ([{10**4_300: "a"}], r"\$ has the key of type int; keys must be strings"),
        ([{"x": [float("nan")]}], r"\$.x\[0\] is nan"),
        ([{"checkpoint_key": "a"}, {"checkpoint_key": "a"}], "gives the tasks 0 and 1 the same checkpoint_key 'a'"),
        ([{"text": "x" * 1_000_000}], "more than the 900000 that a record has room for; put what is long into a file"),
        ([{"checkpoint_key": ".."}], r"has at \[0\] a bad checkpoint_key"),
    ],
)
def test_a_bad_plan_is_refused_and_the_job_named(plan: Any, problem: str) -> None:
    with pytest.raises(PlanError, match=problem) as error:
        make_plan(Planned(plan), job_context())
    assert str(error.value).startswith("the plan of job 'ingest' ")


@pytest.mark.parametrize("flag", [True, False])
def test_a_warm_up_that_is_no_function_is_refused_with_the_plan(flag: Any) -> None:
    def function(spark: Any, task: TaskContext) -> None:
        """Nothing."""

    with pytest.raises(PlanError, match=r"warm_up must be a function of the session .*, or None, not a bool"):
        make_plan(spark_job(warm_up=flag)(function), job_context())


def test_a_planner_without_spark_says_so() -> None:
    with pytest.raises(RuntimeError, match="planner of job 'ingest' asked for Spark, but this runner has none"):
        _ = job_context().spark


def test_json_values_share_nothing_with_the_original() -> None:
    original = {"a": [1, {"b": None}]}
    copy = to_json_value(original)
    assert copy == original
    assert copy["a"] is not original["a"]


def test_a_value_that_contains_itself_is_no_json() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(NotJsonError, match="deep"):
        to_json_value(loop)


class Endless(dict[str, object]):
    """Its content never ends."""

    def items(self) -> Any:
        return ((str(number), number) for number in itertools.count())


class EndlessPlan(list[dict[str, object]]):
    """It never ends."""

    def __iter__(self) -> Iterator[dict[str, object]]:
        return itertools.repeat({"table": "the same"})


@pytest.mark.parametrize("value", ["x" * 100_000, [[]] * 20_000, {"a": Endless()}])
def test_a_value_that_is_far_too_long_is_not_written_as_json(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other thread could run while that is done."""
    monkeypatch.setattr(json, "dumps", None)
    with pytest.raises(NotJsonError, match="many times more bytes as JSON than a record has room for"):
        to_small_json_value(value, 1_000)


def test_the_length_of_a_value_that_is_a_bit_too_long_is_told() -> None:
    with pytest.raises(NotJsonError, match="has 2002 bytes as JSON, more than the 1000"):
        to_small_json_value("x" * 2_000, 1_000)


def test_a_plan_that_never_ends_is_refused() -> None:
    job = spark_job(plan=lambda _: EndlessPlan())(lambda _spark, _task: None)
    with pytest.raises(PlanError, match=r"has at least \d+ bytes as JSON, more than the 900000"):
        make_plan(job, job_context())


@pytest.mark.parametrize("value", ["half \ud83d", {"half \ud83d": 1}, [{"a": "\udcff"}]])
def test_half_a_character_is_no_json(value: Any) -> None:
    """As in the name of a file that is no UTF-8: nobody could write the record."""
    with pytest.raises(NotJsonError, match="half a character"):
        to_json_value(value)


# --- the context of a task


def test_a_context_of_ones_own_is_never_stopped() -> None:
    task = task_context()
    task.fence()
    assert not task.stopping
    assert not task.wait(0)


def test_contexts_do_not_show_configurations_which_may_hold_secrets() -> None:
    assert "hunter2" not in repr(task_context(config={"password": "hunter2"}))
    assert "hunter2" not in repr(job_context(password="hunter2"))


def test_a_context_in_a_udf_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match="use a local variable for what a UDF needs of it"):
        pickle.dumps(task_context())


class Guard:
    """A guard that raises at the given checks."""

    stopping = False

    def __init__(self, *, check: bool = True, lease: bool = True) -> None:
        self._check, self._lease = check, lease

    def wait(self, timeout_s: float) -> bool:
        return False

    def check(self) -> None:
        if not self._check:
            raise FencedError("stopped")

    def check_lease(self) -> None:
        if not self._lease:
            raise FencedError("lease over")


def test_a_fenced_batch_is_written() -> None:
    written: list[object] = []
    task_context(guard=Guard()).foreach_batch(lambda batch, batch_id: written.append((batch, batch_id)))(ROWS, 4)
    assert written == [(ROWS, 4)]


def test_a_fenced_batch_that_exits_fails_with_what_spark_can_be_told() -> None:
    def exits(_batch: object, _batch_id: int) -> None:
        raise SystemExit(0)

    with pytest.raises(RuntimeError, match=r"^the function of foreachBatch failed with SystemExit: 0$"):
        task_context(guard=Guard()).foreach_batch(exits)(ROWS, 4)


def test_a_fenced_batch_is_not_written_when_the_attempt_may_not() -> None:
    written: list[object] = []
    fenced = task_context(guard=Guard(check=False)).foreach_batch(lambda batch, _: written.append(batch))
    with pytest.raises(FencedError):
        fenced(ROWS, 4)
    assert written == []


def test_a_batch_during_which_the_lease_ended_is_not_committed() -> None:
    written: list[object] = []
    fenced = task_context(guard=Guard(lease=False)).foreach_batch(lambda batch, _: written.append(batch))
    with pytest.raises(FencedError):
        fenced(ROWS, 4)
    assert written == [ROWS]


# --- checkpoints


@pytest.mark.parametrize(
    ("root", "group", "task", "config", "location"),
    [
        ("/data/checkpoints", "etl", TaskId("orders", 3), {}, "/data/checkpoints/etl/orders/3"),
        ("s3a://bucket/c/", "etl", TaskId("orders", 0), {}, "s3a://bucket/c/etl/orders/0"),
        ("/c", "etl", TaskId("orders", 3), {"checkpoint_key": "eu"}, "/c/etl/orders/key=eu"),
        ("/c", "a/b", TaskId("größe 1%", 0), {}, "/c/a~2fb/gr~c3~b6~c3~9fe~201~25/0"),
    ],
)
def test_a_tasks_checkpoint_depends_on_group_job_and_index_only(
    root: str, group: str, task: TaskId, config: dict[str, Any], location: str
) -> None:
    assert checkpoint_location(root, group, task, config) == location


def test_names_that_differ_have_folders_that_differ() -> None:
    names = ["a b", "a~20b", "a_b", "a/b"]
    assert len({checkpoint_location("/c", "g", TaskId(name, 0), {}) for name in names}) == len(names)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 201])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(CheckpointError, match="job"):
        checkpoint_location("/c", "g", TaskId(name, 0), {})


def test_a_checkpoint_key_is_a_string() -> None:
    with pytest.raises(CheckpointError, match="checkpoint_key must be a string, not 7"):
        checkpoint_location("/c", "g", TaskId("orders", 0), {"checkpoint_key": 7})


def test_a_task_without_end_needs_a_root_that_somebody_has_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Among the machine's temporary files a stream would begin again wherever it moves to."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    task = TaskId("orders", 0)
    assert checkpoint_root("s3://checkpoints", task, bounded=False) == "s3://checkpoints"
    for given, bounded in ((None, True), ("temporary", True), ("temporary", False)):
        assert checkpoint_root(given, task, bounded=bounded) == f"{tmp_path}/cospark-checkpoints-{os.geteuid()}"
    for usable in ("/checkpoints", "s3a://bucket/x", "file:/checkpoints", "temporary", None):
        assert usable_root(usable) == usable
    for relative in ("checkpoints", "./checkpoints", "~/checkpoints", "a/b:/c", ""):
        with pytest.raises(CheckpointError, match=f"^{relative!r} is neither an absolute path nor a URI"):
            usable_root(relative)
    with pytest.raises(CheckpointError, match="task orders:0 streams, and its worker has no checkpoint_root"):
        checkpoint_root(None, task, bounded=False)


def test_temporary_checkpoints_are_for_their_user_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = Path(checkpoint_root(None, TaskId("orders", 0), bounded=True))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setattr(Path, "mkdir", None)  # it is only made if it is not there: each start of a task looks at it
    assert checkpoint_root(None, TaskId("orders", 1), bounded=True) == str(folder)


def _open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def _leads_elsewhere(folder: Path) -> None:
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize("make", [_open_to_all, _leads_elsewhere, Path.touch])
def test_a_folder_that_others_may_have_made_first_takes_no_checkpoints(
    make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make(tmp_path / f"cospark-checkpoints-{os.geteuid()}")
    with pytest.raises(CheckpointError, match="not a folder of this user alone"):
        checkpoint_root(None, TaskId("orders", 0), bounded=True)


def test_a_folder_of_another_user_takes_no_checkpoints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever owns the folder, this process is somebody else."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    somebody = os.geteuid() + 1
    (tmp_path / f"cospark-checkpoints-{somebody}").mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    with pytest.raises(CheckpointError, match="not a folder of this user alone"):
        checkpoint_root(None, TaskId("orders", 0), bounded=True)
