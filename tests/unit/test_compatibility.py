"""What runs the tests on other versions says what it has not run, and runs nothing twice."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loaded_scripts import SCRIPTS, load

THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def versions() -> ModuleType:
    return load("compatibility")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load("run-compat")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "pyproject.toml").write_text("[project]\n")
    (root / ".gitignore").write_text("ignored\n")
    subprocess.run(["git", "init", "--quiet", root], check=True)
    return root


@pytest.fixture
def tester(script: ModuleType, versions: ModuleType, checkout: Path, tmp_path: Path) -> Callable[..., Any]:
    """One whose steps only write down that they ran, and fail where a file says so."""

    class Workshop(versions.Workshop):  # type: ignore[name-defined,misc]
        def installing(self, limited: Any) -> Any:
            return (self._noting("resolve"), self._noting("install"))

        def testing(self) -> Any:
            return (self._noting("unit"), self._noting("examples"))

        def _noting(self, name: str) -> Any:
            program = (
                f"import pathlib, sys; folder = pathlib.Path({str(tmp_path)!r}); log = folder / 'ran'\n"
                f"log.open('a').write('{name} ')\n"
                f"(folder / 'report.json').write_text('{{\"install\": []}}')\n"
                f"sys.exit((folder / 'fail-{name}').exists())"
            )
            return self._step(name, 60, (sys.executable, "-c", program))

    combination = versions.Combination(THIS, "3.1.0", "2025-09-26", "4.0.0")
    workshop = Workshop(combination, Path(sys.executable), checkout, tmp_path, tmp_path)

    def make(*, again: bool = False) -> Any:
        return script.Tester(workshop, versions.Passed(tmp_path / "passed.json"), again)

    return make


def ran(folder: Path) -> list[str]:
    log = folder / "ran"
    names = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return names


def both(tester: Any, *limited: str) -> list[bool]:
    return [result.passed for result in (*tester.install(limited), *tester.test(limited))]


def test_what_has_passed_is_not_run_again_until_the_checkout_changes(
    tester: Callable[..., Any], checkout: Path, tmp_path: Path
) -> None:
    assert both(tester(), "-c", "one") == [True] * 4
    assert ran(tmp_path) == ["resolve", "install", "unit", "examples"]
    (checkout / "ignored").write_text("nobody looks at it")
    assert both(tester(), "-c", "one") == []
    (checkout / "new.py").write_text("pass\n")
    assert both(tester(), "-c", "one") == [True] * 2
    assert ran(tmp_path) == ["unit", "examples"]
    assert both(tester(again=True), "-c", "one") == [True] * 2
    assert both(tester(), "-c", "another") == [True] * 4, "made of other versions"


def test_what_has_failed_is_run_again(tester: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "fail-unit").touch()
    assert both(tester()) == [True, True, False, True]
    ran(tmp_path)
    (tmp_path / "fail-unit").unlink()
    assert both(tester()) == [True]
    assert ran(tmp_path) == ["unit"]


def test_an_environment_that_was_not_made_ends_there(tester: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "fail-resolve").touch()
    assert [result.passed for result in tester().install(())] == [False]
    assert ran(tmp_path) == ["resolve"]


def test_pins_have_what_pip_would_install_but_for_what_is_given(versions: ModuleType, tmp_path: Path) -> None:
    names = {"anyio": "4.9", "PySpark": "4.0.1", "py4j": "0.10", "airflow-provider-cooperative-spark": "0.1"}
    installed = [f'{{"metadata": {{"name": "{name}", "version": "{is_}"}}}}' for name, is_ in names.items()]
    report = tmp_path / "report.json"
    report.write_text(f'{{"install": [{", ".join(installed)}]}}')
    assert versions.pins(report) == "anyio==4.9\n"


def test_a_python_that_is_not_here_is_said_and_fails_unless_it_is_left_out(script: ModuleType, tmp_path: Path) -> None:
    nobody_has = script.Combination("3.99", "3.1.0", "2025-09-26", "4.0.0")
    for left_out in ((), ("3.99",)):
        verdict = script.test(nobody_has, script.Wishes(again=False, only=(), left_out=left_out), tmp_path)
        assert verdict.good is bool(left_out)
        assert "no Python 3.99 is on the PATH" in str(verdict)


def test_constraints_that_can_not_be_had_fail_unless_they_are_left_out(
    script: ModuleType, versions: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "CONSTRAINTS", f"{tmp_path.as_uri()}/airflow-{{airflow}}/{{python}}.txt")
    combination, kept = versions.COMBINATIONS[0], tmp_path / "kept"
    with pytest.raises(versions.MissingError, match=r"Airflow's constraints can't be had: file:.*Put them into"):
        script.limits(combination, script.Wishes(again=False, only=(), left_out=()), kept)
    without = script.Wishes(again=False, only=(), left_out=("constraints",))
    limited, words = script.limits(combination, without, kept)
    assert limited == ("--uploaded-prior-to", f"{combination.released}T00:00:00Z")
    assert "WITHOUT Airflow's constraints" in words
    published = tmp_path / f"airflow-{combination.airflow}"
    published.mkdir()
    (published / f"{combination.python}.txt").write_text("anyio==4.9\n")
    for _ in range(2):
        (_, file), words = script.limits(combination, without, kept)
        assert Path(file).read_text() == "anyio==4.9\n"
        assert words == "beside Airflow's constraints"
        (published / f"{combination.python}.txt").unlink(missing_ok=True)  # they are kept


def test_the_readme_names_what_is_tested(versions: ModuleType) -> None:
    readme = (SCRIPTS.parent / "README.md").read_text()
    for combination in versions.COMBINATIONS:
        assert f"| {combination.python} | {combination.airflow} | {combination.pyspark} |" in readme
    classified = (SCRIPTS.parent / "pyproject.toml").read_text()
    assert {each.python for each in versions.COMBINATIONS} == {
        line.split(" :: ")[-1].strip('",') for line in classified.splitlines() if ":: Python :: 3." in line
    }
