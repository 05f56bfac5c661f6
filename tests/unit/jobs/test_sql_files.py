"""The job that runs SQL files: what it plans, and what its tasks do, with a stand-in for Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from airflow_provider.jobs.sql_files import OtherFileError, SqlFiles, StatementError
from airflow_provider.spark.attempts.blame import TaskToBlame, WriterToBlame, blame
from airflow_provider.spark.attempts.failures import describe, is_retryable
from airflow_provider.spark.job import FencedError, JobContext, TaskContext
from airflow_provider.spark.job.config_schema import ConfigError, check_config, json_schema_of
from airflow_provider.spark.job.loading import load_job
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.ui.views.config_form import FieldKind, form_fields


def write(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def planned(folder: Path, **config: object) -> list[dict[str, Any]]:
    context = JobContext(name="nightly", config={"folder": str(folder), **config}, max_tasks=1)
    return make_plan(load_job("airflow_provider.jobs.sql_files:SqlFiles", ["airflow_provider.jobs"]), context)


# --- the config


def test_the_page_has_a_form_for_its_config() -> None:
    fields = form_fields(json_schema_of(SqlFiles()) or {})
    assert [(field.name, field.kind, field.required) for field in fields] == [
        ("folder", FieldKind.TEXT, True),
        ("files", FieldKind.JSON, False),
        ("parameters", FieldKind.JSON, False),
    ]
    assert all(field.about for field in fields)


def test_parameters_are_values_and_lists_of_values() -> None:
    parameters = {"day": "2026-01-01", "least": 1, "share": 0.5, "all": True, "none": None, "shops": ["a", "b"]}
    check_config("nightly", SqlFiles(), {"folder": "/sql", "files": ["a.sql"], "parameters": parameters})


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "folder"),
        ({"folder": "sql"}, "folder"),
        ({"folder": "/sql", "files": "a.sql"}, "files"),
        ({"folder": "/sql", "parameters": {"day": {"is": 1}}}, "parameters"),
        ({"folder": "/sql", "params": {}}, "params"),
    ],
)
def test_another_config_is_refused_by_the_name_of_its_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        check_config("nightly", SqlFiles(), config)


# --- the plan


def test_each_file_is_a_task_and_its_digest_is_in_the_plan_but_not_its_text(tmp_path: Path) -> None:
    files = {"b.sql": "SELECT 1", "in/a.sql": "SELECT 2", ".git/c.sql": "SELECT 3", "d.txt": "SELECT 4"}
    write(tmp_path, files)
    assert planned(tmp_path, parameters={"day": "today"}) == [
        {
            "name": name,
            "folder": str(tmp_path),
            "files": [{"file": name, "sha256": hashlib.sha256(files[name].encode()).hexdigest()}],
            "parameters": {"day": "today"},
        }
        for name in ("b.sql", "in/a.sql")
    ]


def test_files_that_depend_on_each_other_are_one_task_in_order(tmp_path: Path) -> None:
    write(tmp_path, {"a.sql": "-- after: in/z.sql\nSELECT 1", "in/z.sql": "SELECT 2", "m.sql": "SELECT 3"})
    tasks = planned(tmp_path)
    assert [task["name"] for task in tasks] == ["in/z.sql, a.sql", "m.sql"]
    assert [file["file"] for file in tasks[0]["files"]] == ["in/z.sql", "a.sql"]


def test_only_the_files_that_are_listed_run(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(("a.sql", "b.sql", "c.sql"), "SELECT 1"))
    assert [task["name"] for task in planned(tmp_path, files=["c.sql", "b.sql"])] == ["b.sql", "c.sql"]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (
            {"a.sql": "-- after: b.sql", "b.sql": "-- after: c.sql", "c.sql": "-- after: a.sql"},
            "circle, (a.sql before c.sql before b.sql before a.sql|b.sql before a.sql|c.sql before b.sql)",
        ),
        ({"a.sql": "-- after: b.sql", "c.sql": ""}, r"a.sql is to run after 'b.sql'.*: a.sql, c.sql"),
    ],
)
def test_a_plan_that_no_retry_mends_is_refused(tmp_path: Path, files: dict[str, str | bytes], why: str) -> None:
    write(tmp_path, files)
    with pytest.raises(PlanError, match=why) as refused:
        planned(tmp_path)
    assert not is_retryable(refused.value)


@pytest.mark.parametrize("name", ["/etc/passwd.sql", "../a.sql", "in/../../a.sql", "secrets.txt", ".sql", ""])
def test_only_sql_files_in_the_folder_are_read_as_errors_may_show_their_text(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"a.sql": "SELECT 1", "jobs/secrets.txt": "secret", "jobs/.sql": "secret"})
    with pytest.raises(ValueError, match=r"is not the path of a \*\.sql file"):
        planned(tmp_path / "jobs", files=[name])


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"a.sql": b"SELECT '\xe9'"})
    with pytest.raises(ValueError, match=r"a\.sql is not encoded in UTF-8"):
        planned(tmp_path)


@pytest.mark.parametrize("config", [{}, {"files": ["a.sql"]}])
def test_files_that_are_not_there_yet_may_be_found_by_the_next_try(tmp_path: Path, config: dict[str, Any]) -> None:
    with pytest.raises(FileNotFoundError, match="sql") as missing:
        planned(tmp_path / "nowhere", **config)
    assert is_retryable(missing.value)


# --- a task


class Result:
    """What ``spark.sql`` returns: of a command, or of a query that has not run yet."""

    def __init__(self, columns: list[str], row: tuple[Any, ...] = ()) -> None:
        self.columns, self.row = columns, row
        self.written = 0

    def first(self) -> dict[str, Any] | None:
        return dict(zip(self.columns, self.row, strict=True)) if self.row else None

    @property
    def write(self) -> Result:
        return self

    def format(self, name: str) -> Result:
        assert name == "noop"
        return self

    def mode(self, name: str) -> Result:
        assert name == "overwrite"
        return self

    def save(self) -> None:
        self.written += 1


class Spark:
    def __init__(self, *results: Result | BaseException) -> None:
        self.results = list(results)
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def sql(self, text: str, args: dict[str, Any]) -> Result:
        self.heard.append((text, args))
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result


class Guard:
    """Lets so many statements run."""

    stopping = False

    def __init__(self, statements: int) -> None:
        self.left = statements

    def wait(self, timeout_s: float) -> bool:
        return False

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise FencedError

    def check_lease(self) -> None: ...


RunTask = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> RunTask:
    """Runs these texts as files of one task, in this order."""

    def run_texts(spark: Spark, *texts: str | bytes, guard: Guard | None = None) -> dict[str, Any]:
        files = {f"{number}.sql": text for number, text in enumerate(texts)}
        write(tmp_path, files)
        digests = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in files}
        return run_task(spark, tmp_path, digests, guard)

    return run_texts


def run_task(spark: Any, folder: Path, digests: dict[str, str], guard: Guard | None = None) -> dict[str, Any]:
    config = {
        "folder": str(folder),
        "files": [{"file": name, "sha256": digest} for name, digest in digests.items()],
        "parameters": {"day": 1},
    }
    guarded: dict[str, Any] = {} if guard is None else {"guard": guard}
    context = TaskContext(job="nightly", index=0, config=config, epoch=1, checkpoint_location="", **guarded)
    return SqlFiles().run(spark, context)


def test_all_statements_run_in_order_with_the_parameters_beside_the_text(run: RunTask) -> None:
    spark = Spark(Result([]), Result([]), Result([]))
    result = run(spark, "SET x = ';';INSERT INTO t SELECT :day", "SELECT 1")
    assert spark.heard == [(text, {"day": 1}) for text in ("SET x = ';'", "INSERT INTO t SELECT :day", "SELECT 1")]
    assert result.pop("seconds") >= 0
    assert result == {"statements": 3, "rows_affected": None}


def test_a_file_may_have_a_mark_at_its_begin_and_the_line_ends_of_windows(run: RunTask) -> None:
    spark = Spark(Result([]))
    run(spark, b"\xef\xbb\xbfSELECT 1\r\n + '\xc3\xa9';\r\n")
    assert spark.heard == [("SELECT 1\n + '\u00e9'", {"day": 1})]


def test_a_file_that_has_changed_since_the_plan_is_refused_before_any_statement_has_run(tmp_path: Path) -> None:
    write(tmp_path, {"a.sql": "SELECT 1", "b.sql": "SELECT 2"})
    digests = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("a.sql", "b.sql")}
    write(tmp_path, {"b.sql": "SELECT 3"})
    spark = Spark()
    with pytest.raises(OtherFileError, match=r"b\.sql is not as it was when the job was planned"):
        run_task(spark, tmp_path, digests)
    assert spark.heard == []


def test_rows_are_those_of_which_spark_says_that_they_were_affected(run: RunTask) -> None:
    merged = Result(["num_affected_rows", "num_updated_rows"], (5, 2))
    deleted, unknown = Result(["num_affected_rows"], (3,)), Result(["num_affected_rows"], (None,))
    result = run(Spark(Result([]), merged, deleted, unknown), "CREATE TABLE t (id INT); MERGE; DELETE; DELETE")
    assert (result["statements"], result["rows_affected"]) == (4, 8)
    json.dumps(result)


def test_a_query_runs_too_as_it_may_check_something(run: RunTask) -> None:
    query = Result(["assert_true(false)"])
    run(Spark(query), "SELECT assert_true(false)")
    assert query.written == 1


def test_nothing_runs_any_more_when_the_task_may_not_write(run: RunTask) -> None:
    spark = Spark(Result([]), Result([]))
    with pytest.raises(FencedError):
        run(spark, "INSERT 1; INSERT 2", guard=Guard(1))
    assert len(spark.heard) == 1


def test_the_error_names_the_file_and_the_line_of_a_statement_that_spark_refuses(run: RunTask) -> None:
    refused = AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] there is no table t")
    with pytest.raises(StatementError) as failed:
        run(Spark(Result([]), Result([]), refused), "SET a = 1", "SET b = 2;\n\n-- t\nSELECT * FROM t;")
    text = describe(failed.value)
    assert "1.sql, line 4 (statement 2 of 2)" in text
    assert "caused by AnalysisException: [TABLE_OR_VIEW_NOT_FOUND]" in text
    assert isinstance(blame(failed.value, lambda error: error, str), TaskToBlame)


class ConcurrentAppendException(AnalysisException):
    """As Delta's Python package calls it."""


ConcurrentAppendException.__module__ = "delta.exceptions.captured"
CONFLICT = "[DELTA_CONCURRENT_APPEND] Files were added to the root of the table by a concurrent update."


class Py4JJavaError(Exception):
    """As py4j calls it."""


Py4JJavaError.__module__ = "py4j.protocol"
ICEBERG = "org.apache.iceberg.exceptions.CommitFailedException: Cannot commit: stale table metadata"


@pytest.mark.parametrize(
    "conflict",
    [
        ConcurrentAppendException(CONFLICT),
        AnalysisException(CONFLICT),
        Py4JJavaError(f"An error occurred while calling o7.sql.\n: {ICEBERG}\n\tat org.apache.iceberg.A.b(A.java:1)\n"),
    ],
)
def test_a_conflict_with_ananother_writer_is_no_failure_of_the_task(run: RunTask, conflict: Exception) -> None:
    with pytest.raises(Exception, match=r"0\.sql|conflict|concurrent|Cannot commit") as raised:
        run(Spark(conflict), "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert isinstance(blame(raised.value, lambda error: error, str), WriterToBlame)
