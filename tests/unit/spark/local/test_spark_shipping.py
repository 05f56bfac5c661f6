"""What of a job is sent to the executors of a cluster, and what is said where that can't be."""

from __future__ import annotations

import importlib
import os
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.spark.local import shipping
from airflow_provider.spark.local.shipping import ExecutorImportError, Shipment, explain_missing
from airflow_provider.spark.local.sources import sources_of

MISSING = "Traceback (most recent call last):\nModuleNotFoundError: No module named"


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is on this process's import path only; what is imported from it is forgotten after the test."""
    folder = tmp_path / "dags"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def write(folder: Path, **files: str) -> None:
    """Named as modules, with ``__`` for a slash."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(module: str) -> list[str]:
    return [source.name for source in sources_of(module)]


def test_a_job_is_sent_with_what_it_imports_that_is_not_installed(dags: Path) -> None:
    write(
        dags,
        shipped_job="import json, numpy, shipped_help\nfrom shipped_pack.inner import a\n",
        shipped_help="def f():\n    from shipped_late import g\n",
        shipped_late="import shipped_job",
        shipped_pack__inner="from . import other\n",
        shipped_pack__other="",
        shipped_stranger="",
    )
    assert names("shipped_job") == ["shipped_job", "airflow_provider", "shipped_help", "shipped_pack", "shipped_late"]


def test_all_of_a_jobs_package_is_sent_with_its_data(dags: Path) -> None:
    write(dags, shipped_pack__inner__deep="")
    (dags / "shipped_pack" / "__init__.py").touch()
    (dags / "shipped_pack" / "units.json").write_text("{}")
    (dags / "shipped_pack" / "__pycache__").mkdir()
    (dags / "shipped_pack" / "__pycache__" / "x.pyc").touch()
    (source, _) = sources_of("shipped_pack.inner.deep")
    assert [path for path, _ in source.files] == [
        "shipped_pack/__init__.py",
        "shipped_pack/inner/deep.py",
        "shipped_pack/units.json",
    ]


@pytest.mark.slow
def test_what_nobody_can_import_keeps_nothing_else_from_being_sent(
    dags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose name is no text, and expressions that Python does not parse: a module of a job needs neither."""
    long = "" if sys.version_info < (3, 11) else "+".join("1" * 200_000)  # it ends Python 3.10 itself
    write(dags, shipped_odd__job="", shipped_odd__deep="-" * 100_000 + "1", shipped_odd__long=long)
    Path(os.fsdecode(os.fsencode(dags / "shipped_odd") + b"/\xff.csv")).touch()
    sent = Sent(monkeypatch)
    sent.ship(Shipment(tmp_path), "shipped_odd.job")
    with zipfile.ZipFile(sent.archives[0]) as archive:
        assert archive.namelist() == ["shipped_odd/deep.py", "shipped_odd/job.py", "shipped_odd/long.py"]


def test_a_job_in_an_installed_package_is_sent_but_nothing_else_that_is_installed(dags: Path) -> None:
    installed = dags / "lib" / "site-packages"
    write(installed, shipped_team__jobs="import shipped_lib", shipped_lib="")
    sys.path.insert(0, str(installed))
    try:
        assert names("shipped_team.jobs") == ["shipped_team", "airflow_provider"]
    finally:
        sys.path.remove(str(installed))


def test_what_is_no_python_is_sent_as_it_is(dags: Path) -> None:
    write(dags, shipped_pack__job="", shipped_pack__template="def {{ name }}():")
    assert names("shipped_pack.job") == ["shipped_pack", "airflow_provider"]


class Sent:
    """Keeps what is added to a context that is not there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.archives: list[Path] = []
        monkeypatch.setattr(shipping, "add_python_archive", lambda _context, archive: self.archives.append(archive))

    def ship(self, shipment: Shipment, module: str) -> None:
        nowhere: Any = SimpleNamespace()
        shipment.ship(nowhere, module)

    @property
    def names(self) -> list[str]:
        return [archive.name.rpartition("-")[0] for archive in self.archives]


@pytest.mark.slow
def test_each_module_is_sent_once_in_an_application(
    dags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(dags, shipped_a="import shipped_both", shipped_b="import shipped_both", shipped_both="x = 1")
    sent, shipment = Sent(monkeypatch), Shipment(tmp_path)
    for module in ("shipped_a", "shipped_b", "shipped_a"):
        sent.ship(shipment, module)
    assert sent.names == ["shipped_a", "airflow_provider", "shipped_both", "shipped_b"]
    with zipfile.ZipFile(sent.archives[2]) as archive:
        assert archive.read("shipped_both.py") == b"x = 1"


@pytest.mark.slow
def test_a_module_that_comes_late_is_sent_then(dags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job is sent before it is imported: its folder may still be on its way."""
    sent, shipment = Sent(monkeypatch), Shipment(tmp_path)
    sent.ship(shipment, "shipped_late")
    write(dags, shipped_late="x = 1")
    importlib.invalidate_caches()
    sent.ship(shipment, "shipped_late")
    assert sent.names == ["airflow_provider", "shipped_late"]


@pytest.mark.slow
def test_what_the_import_of_a_job_adds_to_the_path_is_sent_then(
    dags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write(elsewhere, shipped_helper="x = 1")
    write(dags, shipped_adds=f"import sys\nsys.path.append({str(elsewhere)!r})\nimport shipped_helper")
    sent, shipment = Sent(monkeypatch), Shipment(tmp_path)
    sent.ship(shipment, "shipped_adds")
    importlib.import_module("shipped_adds")
    sent.ship(shipment, "shipped_adds")
    assert sent.names == ["shipped_adds", "airflow_provider", "shipped_helper"]


@pytest.mark.slow
def test_compiled_code_is_not_sent_and_it_is_said_where_to_install_it(
    dags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    write(dags, shipped_fast__job="")
    (dags / "shipped_fast" / "speed.abi3.so").touch()
    sent = Sent(monkeypatch)
    sent.ship(Shipment(tmp_path), "shipped_fast.job")
    assert sent.names == ["airflow_provider"]
    assert (
        "shipped_fast is not sent to the executors: it has compiled code (shipped_fast/speed.abi3.so)."
        " Install shipped_fast on every machine of the cluster, for the Python that runs there (/opt/python)"
    ) in caplog.text


def test_what_cannot_be_read_is_said_and_fails_nothing(
    dags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job may have no functions that executors would run."""

    def refuse(_source: object, _folder: Path) -> Path:
        raise PermissionError(13, "Permission denied", "secret.csv")

    write(dags, shipped_job="")
    monkeypatch.setattr(shipping, "_archive", refuse)
    sent = Sent(monkeypatch)
    sent.ship(Shipment(tmp_path), "shipped_job")
    assert sent.archives == []
    assert "shipped_job is not sent to the executors: [Errno 13] Permission denied: 'secret.csv'" in caplog.text


def test_what_cannot_be_read_for_a_moment_is_sent_with_the_next_task(
    dags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def too_many(_source: object, _folder: Path) -> Path:
        raise OSError(24, "Too many open files", "shipped_passing.py")

    write(dags, shipped_passing="")
    importlib.import_module("shipped_passing")
    sent, shipment = Sent(monkeypatch), Shipment(tmp_path)
    with monkeypatch.context() as for_a_moment:
        for_a_moment.setattr(shipping, "_archive", too_many)
        sent.ship(shipment, "shipped_passing")
    assert sent.names == []
    assert "shipped_passing is not sent to the executors yet: [Errno 24] Too many open files" in caplog.text
    for _ in range(2):
        sent.ship(shipment, "shipped_passing")
    assert sent.names == ["shipped_passing", "airflow_provider"]


def test_what_executors_lack_is_named_with_what_to_install() -> None:
    lost = RuntimeError(f"An exception was thrown from the Python worker:\n{MISSING} 'pytest.x'")
    plain = explain_missing(lost, "spark://there:7077")
    assert isinstance(plain, ExecutorImportError)
    assert plain.__cause__ is lost
    assert str(plain).startswith("the executors of spark://there:7077 have no module 'pytest.x'. Install pytest (here")
    assert "on every machine of the cluster" in str(plain)


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'there'"),
        RuntimeError("no row"),
        RuntimeError(f"An exception was raised by the Python Proxy. Return Message: {MISSING} 'there'"),
    ],
    ids=["the job's own", "another", "foreachBatch's"],
)
def test_what_this_process_lacks_is_told_as_it_is(error: Exception) -> None:
    assert explain_missing(error, "spark://there:7077") is error
