"""Whatever a job's code raises is an error with a name. What ends more than the job is let through."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.spark.connect.trouble import text_of
from airflow_provider.spark.job import JobContext, SparkJob
from airflow_provider.spark.job.config_schema import (
    SchemaError,
    check_config,
    check_config_here,
    config_schema_to_publish,
)
from airflow_provider.spark.job.loading import JobCodeError
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.spark.local.shipping import explain_missing
from airflow_provider.spark.raised import Naming, message_of

try:
    from airflow.sdk.exceptions import AirflowTaskTimeout
except ImportError:  # before Airflow 3.2
    from airflow.exceptions import AirflowTaskTimeout  # type: ignore[no-redef]


class PanicException(BaseException):
    """As pyo3 raises it for a panic in Rust."""


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise AttributeError("never set")


class ExitingError(Exception):
    def __str__(self) -> str:
        sys.exit(0)


RAISED: list[tuple[type[BaseException], str]] = [
    (SystemExit, "SystemExit: "),
    (GeneratorExit, "GeneratorExit: "),
    (StopIteration, "StopIteration: "),
    (asyncio.CancelledError, "CancelledError: "),
    (PanicException, "PanicException: "),
    (SpeechlessError, "SpeechlessError: its message can't be shown, because that failed with AttributeError"),
    (ExitingError, "ExitingError: its message can't be shown, because that failed with SystemExit"),
]

PLACES = {
    "importing module cosparkrude failed with ": "raise Raised()",
    "looking for Job in module cosparkrude failed with ": "def __getattr__(name): raise Raised()",
    r"Job\(\) failed with ": "class Job(SparkJob):\n    def __init__(self): raise Raised()",
}

TO_PASS: list[type[BaseException]] = [KeyboardInterrupt, AirflowTaskTimeout]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, type[BaseException]], None]]:
    """Write the module of a job, in which a name stands for what it raises."""

    def written(code: str, raised: type[BaseException]) -> None:
        monkeypatch.setattr(sys.modules[__name__], "Raised", raised, raising=False)
        head = f"from airflow_provider.spark.job import SparkJob\nfrom {__name__} import Raised\n"
        (tmp_path / "cosparkrude.py").write_text(head + code)

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield written
    sys.modules.pop("cosparkrude", None)


@pytest.mark.parametrize(("raised", "name"), RAISED)
@pytest.mark.parametrize("place", PLACES)
def test_what_the_import_of_a_job_raises_has_a_name(
    write: Callable[[str, type[BaseException]], None], place: str, raised: type[BaseException], name: str
) -> None:
    write(PLACES[place], raised)
    with pytest.raises(JobCodeError, match=f"^entry point 'cosparkrude:Job': {place}{name}"):
        check_config_here("etl", "cosparkrude:Job", {})


@pytest.mark.parametrize("raised", TO_PASS)
@pytest.mark.parametrize("place", PLACES)
def test_what_ends_the_process_or_its_task_is_let_through(
    write: Callable[[str, type[BaseException]], None], place: str, raised: type[BaseException]
) -> None:
    write(PLACES[place], raised)
    with pytest.raises(raised):
        check_config_here("etl", "cosparkrude:Job", {})


class Declares(SparkJob):
    def __init__(self, raised: type[BaseException]) -> None:
        self.raised = raised

    @property
    def config_schema(self) -> Any:  # type: ignore[override]
        raise self.raised


@pytest.mark.parametrize(("raised", "name"), RAISED)
def test_what_its_declaration_raises_has_a_name(raised: type[BaseException], name: str) -> None:
    fails = f"Declares.config_schema can't be used: its code failed with {name}"
    with pytest.raises(SchemaError, match=fails):
        check_config("etl", Declares(raised), {})
    with pytest.raises(PlanError, match=f"^the plan of job 'etl' can't be made: {fails}"):
        make_plan(Declares(raised), JobContext(name="etl", config={}, max_tasks=1))
    assert config_schema_to_publish(Declares(raised)) is None


class Odd(dict[str, Any]):
    def items(self) -> Any:
        raise PanicException


class DeclaresOddly(SparkJob):
    @property
    def config_schema(self) -> Any:  # type: ignore[override]
        return {"properties": Odd()}


def test_a_declaration_that_fails_while_it_is_written_down_is_not_published() -> None:
    assert config_schema_to_publish(DeclaresOddly()) is None


def test_a_cancellation_while_a_jobs_code_is_not_called_is_none_of_the_job() -> None:
    async def check_for_ever() -> None:
        while True:
            with pytest.raises(PlanError):
                make_plan(Declares(asyncio.CancelledError), JobContext(name="etl", config={}, max_tasks=1))
            await asyncio.sleep(0)

    async def cancelled() -> None:
        checking = asyncio.ensure_future(check_for_ever())
        await asyncio.sleep(0)
        checking.cancel()
        await checking

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


def test_ctrl_c_while_an_error_is_described_is_let_through() -> None:
    class SlowError(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    for describe in (message_of, text_of, partial(explain_missing, master="spark://m:7077")):
        with pytest.raises(KeyboardInterrupt):
            describe(SlowError())


@pytest.mark.parametrize("error", [SpeechlessError(), ExitingError()])
def test_an_error_that_cannot_be_shown_says_nothing_of_spark(error: Exception) -> None:
    assert text_of(error) == ""
    assert explain_missing(error, "spark://m:7077") is error


def test_an_error_that_has_a_name_keeps_it() -> None:
    with pytest.raises(KeyError), Naming(ValueError, KeyError):
        raise KeyError("known")
    with pytest.raises(ValueError, match="OSError: new") as named, Naming(ValueError, KeyError):
        raise OSError("new")
    assert isinstance(named.value.__cause__, OSError)
