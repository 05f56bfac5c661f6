"""The trust boundary: which entry points a worker runs, and what it says about the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.spark.job import SparkJob
from airflow_provider.spark.job.loading import EntryPointError, EntryPointNotAllowedError, load_job

SOURCES = {
    "cosparkjobs/__init__.py": "",
    "cosparkjobs/ingest.py": """
        from airflow_provider.spark.job import SparkJob, spark_job

        class Ingest(SparkJob):
            class Nested(SparkJob):
                pass

        class Picky(SparkJob):
            def __init__(self, table):
                pass

        @spark_job
        def clean(spark, task):
            pass

        def plain(spark, task):
            pass

        class Exits(SparkJob):
            def __init__(self):
                raise SystemExit(0)

        class Other:
            pass

        number = 3
    """,
    "cosparkjobs/imports.py": """
        import os
        import cosparklibrary
        from airflow_provider.spark.job import SparkJob
        from cosparklibrary import Reexported

        class Job(SparkJob):
            library = cosparklibrary

        job = Job()
    """,
    "cosparklibrary.py": """
        from airflow_provider.spark.job import SparkJob

        class Elsewhere(SparkJob):
            pass

        class Reexported(SparkJob):
            pass
    """,
    "cosparkjobs/broken.py": "1 / 0",
    "cosparkjobs/exits.py": "import sys; sys.exit(0)",
    "cosparkjobs/syntax.py": "def",
    "cosparkjobs/needy.py": "import no_such_library",
    "cosparkjobsevil.py": "raise AssertionError('imported although not allowed')",
}


@pytest.fixture(autouse=True)
def job_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, source in SOURCES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(line[8:] if line.startswith(" " * 8) else line for line in source.splitlines()))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for name in [name for name in sys.modules if name.startswith("cosparkjobs")]:
        del sys.modules[name]


@pytest.mark.parametrize("allowed", ["cosparkjobs", "cosparkjobs.ingest"])
@pytest.mark.parametrize("attribute", ["Ingest", "Ingest.Nested", "clean"])
def test_an_allowed_job_is_loaded(allowed: str, attribute: str) -> None:
    assert isinstance(load_job(f"cosparkjobs.ingest:{attribute}", ["elsewhere", allowed]), SparkJob)


def test_a_class_is_made_anew_each_time() -> None:
    first, second = (load_job("cosparkjobs.ingest:Ingest", ["cosparkjobs"]) for _ in range(2))
    assert first is not second


@pytest.mark.parametrize("allowed", [[], [""], ["cosparkjobs"], ["cosparkjobsevil.deeper"], ["cospark"], ["evil"]])
def test_a_module_outside_the_prefixes_is_not_even_imported(allowed: list[str]) -> None:
    with pytest.raises(EntryPointNotAllowedError, match="module cosparkjobsevil is not allowed here"):
        load_job("cosparkjobsevil:Job", allowed)
    assert "cosparkjobsevil" not in sys.modules


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        ("os.system", "leads through a module"),
        ("cosparklibrary.Elsewhere", "leads through a module"),
        ("Job.library.Elsewhere", "leads through a module"),
        ("job.library", "leads through a Job"),
        ("Job.run.__globals__", "leads through a function"),
        ("Job.__base__", "__base__ is Python's own name"),
        ("Job.__init__.__globals__", "__init__ is Python's own name"),
        ("__builtins__.eval", "__builtins__ is Python's own name"),
        ("__loader__", "__loader__ is Python's own name"),
    ],
)
def test_no_way_leads_through_an_allowed_module_to_another(attribute: str, problem: str) -> None:
    with pytest.raises(EntryPointError, match=problem):
        load_job(f"cosparkjobs.imports:{attribute}", ["cosparkjobs"])


def test_what_a_module_has_imported_by_name_is_its_own() -> None:
    assert isinstance(load_job("cosparkjobs.imports:Reexported", ["cosparkjobs"]), SparkJob)


def test_the_refusal_names_what_is_allowed() -> None:
    with pytest.raises(EntryPointNotAllowedError, match="imports jobs from a, b: move the job there, or allow"):
        load_job("cosparkjobsevil:Job", ["b", "a"])


@pytest.mark.parametrize(
    ("entry_point", "problem"),
    [
        ("cosparkjobs.ingest", "is not of the form module:Class or module:function"),
        ("cosparkjobs.ingest:", "is not of the form"),
        (":Ingest", "is not of the form"),
        ("cosparkjobs/ingest:Ingest", "is not of the form"),
        ("cosparkjobs..ingest:Ingest", "is not of the form"),
        ("cosparkjobs.ingest:Ingest()", "is not of the form"),
        ("cosparkjobs.ingest:Ingest\n", "is not of the form"),
        ("cosparkjobs.missing:Job", "there is no module cosparkjobs.missing on this worker"),
        ("cosparkjobs.needy:Job", "module cosparkjobs.needy needs the module no_such_library, which"),
        (
            "cosparkjobs.broken:Job",
            "importing module cosparkjobs.broken failed with ZeroDivisionError: division by zero",
        ),
        ("cosparkjobs.exits:Job", "importing module cosparkjobs.exits failed with SystemExit: 0"),
        ("cosparkjobs.ingest:Exits", r"Exits\(\) failed with SystemExit: 0"),
        ("cosparkjobs.syntax:Job", "importing module cosparkjobs.syntax failed with SyntaxError"),
        ("cosparkjobs.ingest:Missing", "cosparkjobs.ingest has no attribute Missing; check its spelling"),
        ("cosparkjobs.ingest:Ingest.Missing", "Ingest has no attribute Missing"),
        ("cosparkjobs.ingest:plain", "plain is not a SparkJob but a function; decorate it with @spark_job"),
        ("cosparkjobs.ingest:Other", "Other is not a SparkJob but a type; derive it from SparkJob"),
        ("cosparkjobs.ingest:number", "number is not a SparkJob but a int; derive it from SparkJob"),
        ("cosparkjobs.ingest:Picky", r"Picky\(\) failed with TypeError.*callable without arguments"),
    ],
)
def test_what_is_wrong_is_named(entry_point: str, problem: str) -> None:
    with pytest.raises(EntryPointError, match=problem) as error:
        load_job(entry_point, ["cosparkjobs"])
    assert str(error.value).startswith(f"entry point {entry_point!r}: ")
