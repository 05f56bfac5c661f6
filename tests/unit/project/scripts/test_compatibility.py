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


class Noting:
    """Its parts only write down that they ran, and fail where a file says so."""

    def __init__(self, versions: ModuleType, checkout: Path, folder: Path) -> None:
        self._versions, self.root, self.folder = versions, checkout, folder
        self.combination = versions.Combination("3.10", "3.1.0", "2025-09-26", "4.0.0")
        self.constraints: Path | None = None

    def parts(self) -> list[Any]:
        return [self._part("install", tests=False), *(self._part(name, tests=True) for name in ("unit", "examples"))]

    def _part(self, name: str, *, tests: bool) -> Any:
        program = (
            f"import pathlib, sys; folder = pathlib.Path({str(self.folder)!r})\n"
            f"(folder / 'ran').open('a').write('{name} ')\n"
            f"(folder / 'touch-{name}').exists() and pathlib.Path({str(self.root / 'late.py')!r}).touch()\n"
            f"sys.exit((folder / 'fail-{name}').exists())"
        )
        step = load("steps").Step(name, 1, (sys.executable, "-c", program))
        return self._versions.Part(step, tests=tests, keep=(self.folder / f"kept-{name}").touch)


@pytest.fixture
def workshop(versions: ModuleType, checkout: Path, tmp_path: Path) -> Noting:
    return Noting(versions, checkout, tmp_path)


@pytest.fixture
def tester(script: ModuleType, versions: ModuleType, workshop: Noting, tmp_path: Path) -> Callable[..., Any]:
    def make(*, again: bool = False) -> Any:
        return script.Tester(workshop, versions.Passed(tmp_path / "passed.json"), again)

    return make


def ran(tester: Any) -> list[str]:
    """What one run of the tester has run."""
    return [result.step.name for result in tester.run()]


@pytest.mark.slow
def test_what_has_passed_is_not_run_again_until_the_checkout_changes(
    tester: Callable[..., Any], checkout: Path, workshop: Noting, tmp_path: Path
) -> None:
    assert tester().not_passed() == ["install", "unit", "examples"]
    assert ran(tester()) == ["install", "unit", "examples"]
    assert (tmp_path / "ran").read_text() == "install unit examples "
    assert tester().not_passed() == []
    (checkout / "ignored").write_text("nobody looks at it")
    assert ran(tester()) == []
    (checkout / "new.py").write_text("pass\n")
    assert ran(tester()) == ["unit", "examples"]
    assert ran(tester(again=True)) == ["unit", "examples"]
    workshop.constraints = tmp_path / "constraints.txt"
    workshop.constraints.write_text("anyio==4.9\n")
    assert ran(tester()) == ["install", "unit", "examples"]


def test_what_has_failed_is_run_again(tester: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "fail-unit").touch()
    assert ran(tester()) == ["install", "unit", "examples"]
    assert tester().not_passed() == ["unit"]
    assert not (tmp_path / "kept-unit").exists()
    (tmp_path / "fail-unit").unlink()
    assert ran(tester()) == ["unit"]
    assert tester().not_passed() == []
    assert (tmp_path / "kept-unit").exists()


def test_an_environment_that_was_not_made_is_not_tested(tester: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "fail-install").touch()
    assert ran(tester()) == ["install"]
    assert tester().not_passed() == ["install", "unit", "examples"]


def test_what_was_changed_while_it_was_tested_has_not_passed(tester: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "touch-unit").touch()
    assert ran(tester()) == ["install", "unit", "examples"]
    assert tester().not_passed() == ["unit"]


def test_pins_have_what_pip_would_install_but_for_what_is_given(versions: ModuleType, tmp_path: Path) -> None:
    names = {"anyio": "4.9", "PySpark": "4.0.1", "py4j": "0.10", "airflow-provider-cooperative-spark": "0.1"}
    installed = [f'{{"metadata": {{"name": "{name}", "version": "{is_}"}}}}' for name, is_ in names.items()]
    report = tmp_path / "report.json"
    report.write_text(f'{{"install": [{", ".join(installed)}]}}')
    assert versions.pins(report, without=("pyspark", "py4j")) == "anyio==4.9\n"


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
    for_all = script.Wishes(again=False, only=(), left_out=())
    with pytest.raises(versions.MissingError, match=r"Airflow's constraints can't be had: file:.*Put them into"):
        script.own_constraints(combination, for_all, kept)
    without = script.Wishes(again=False, only=(), left_out=("constraints",))
    assert script.own_constraints(combination, without, kept) is None
    published = tmp_path / f"airflow-{combination.airflow}" / f"{combination.python}.txt"
    published.parent.mkdir()
    published.write_text("anyio==4.9\n")
    for _ in range(2):
        assert script.own_constraints(combination, for_all, kept).read_text() == "anyio==4.9\n"
        published.unlink(missing_ok=True)  # they are kept


def test_the_readme_names_what_is_tested(versions: ModuleType) -> None:
    readme = (SCRIPTS.parent / "README.md").read_text()
    for combination in versions.COMBINATIONS:
        assert f"| {combination.python} | {combination.airflow} | {combination.pyspark} |" in readme
    classified = (SCRIPTS.parent / "pyproject.toml").read_text()
    assert {each.python for each in versions.COMBINATIONS} == {
        line.split(" :: ")[-1].strip('",') for line in classified.splitlines() if ":: Python :: 3." in line
    }
