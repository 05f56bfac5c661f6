"""A DAG file may name a job by its class, if workers can import it by a name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dag_files import Parse, parsing

from airflow_provider.integration.operator_parameters.entry_points import entry_point_of
from airflow_provider.spark.job import SparkJob, TaskContext, spark_job
from airflow_provider.spark.job.loading import load_job

DAG_FILE = """
from airflow_provider.spark.job import SparkJob, spark_job

class Copy(SparkJob):
    class Nightly(SparkJob): ...

@spark_job
def check(spark, task): ...
"""


class Copy(SparkJob): ...


@spark_job
def check(_spark: object, _task: TaskContext) -> None: ...


@pytest.fixture
def parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Parse]:
    with parsing(tmp_path, monkeypatch) as parse:
        yield parse


@pytest.mark.parametrize("given", ["jobs:Copy", "{{ params.job }}", "nonsense"])
def test_a_text_stays_as_it_is(given: str) -> None:
    assert entry_point_of(given) == given


def test_a_class_or_a_function_of_a_module_is_named_by_it() -> None:
    assert entry_point_of(Copy) == f"{__name__}:Copy"
    assert entry_point_of(check) == f"{__name__}:check"


@pytest.mark.parametrize(("file", "module"), [("nightly_copies.py", "nightly_copies"), ("etl/days.py", "etl.days")])
def test_a_job_of_the_dag_file_is_named_as_workers_import_it(parse: Parse, file: str, module: str) -> None:
    dag_file = parse(file, DAG_FILE)
    assert entry_point_of(dag_file.Copy) == f"{module}:Copy"
    assert entry_point_of(dag_file.Copy.Nightly) == f"{module}:Copy.Nightly"
    assert entry_point_of(dag_file.check) == f"{module}:check"
    assert isinstance(load_job(f"{module}:Copy", [module]), SparkJob)


def test_it_is_named_from_the_dags_folder_even_if_a_folder_around_that_is_also_on_the_path(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path.parent))
    assert entry_point_of(parse("nightly_copies.py", DAG_FILE).Copy) == "nightly_copies:Copy"


@pytest.mark.parametrize("file", ["nightly-copies.py", "etl.v2/days.py", "json.py"])
def test_a_job_of_a_dag_file_that_nobody_can_import_is_refused(parse: Parse, file: str) -> None:
    """By such a name, or because another module has it already."""
    dag_file = parse(file, DAG_FILE)
    with pytest.raises(ValueError, match=rf"^entry_point: Copy is in the DAG file \(.*{file}\).* of its own"):
        entry_point_of(dag_file.Copy)


def test_a_package_whose_code_exits_does_not_end_who_reads_the_dag_file(parse: Parse, tmp_path: Path) -> None:
    dag_file = parse("leaves/days.py", DAG_FILE)
    (tmp_path / "leaves/__init__.py").write_text("raise SystemExit(0)")
    with pytest.raises(ValueError, match=r"^entry_point: importing the packages of leaves\.days failed with Sys"):
        entry_point_of(dag_file.Copy)


def test_a_job_that_is_defined_in_a_function_is_refused() -> None:
    class Local(SparkJob): ...

    with pytest.raises(ValueError, match=r"^entry_point: .*Local is defined inside of a function"):
        entry_point_of(Local)


def test_a_function_whose_name_the_job_does_not_have_is_refused(parse: Parse) -> None:
    """Workers would find the function, and not the job that was made of it."""
    dag_file = parse("renamed.py", f"{DAG_FILE}\ndef plain(spark, task): ...\n\njob = spark_job(plain)")
    with pytest.raises(ValueError, match=r"^entry_point: workers import plain, but in .*renamed this is <function"):
        entry_point_of(dag_file.job)


@pytest.mark.parametrize("given", [Copy(), print, 7, TaskContext, None])
def test_what_is_no_job_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^entry_point: .* must be 'package\.module:Class'"):
        entry_point_of(given)
