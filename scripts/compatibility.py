"""Which versions of Airflow, PySpark and Python are tested together, and what is done with each such combination."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steps import NICE, Step

CONSTRAINTS = "https://raw.githubusercontent.com/apache/airflow/constraints-{airflow}/constraints-{python}.txt"
"""Airflow's own for a release, as its installation guide names them."""
DOWNLOAD_S = 30.0
EXAMPLES = (
    "tests/system/test_example_dags.py",
    "tests/system/test_scheduling.py::test_a_job_that_ends_and_a_worker_that_is_lost_start_the_example_dags",
)


@dataclass(frozen=True)
class Combination:
    """Versions that are tested together.

    :param released: the day after this Airflow's release. Airflow's constraints have the newest of everything as of a
        release; where they can't be had, what was there by this day stands in for them.
    """

    python: str
    airflow: str
    released: str
    pyspark: str

    def __str__(self) -> str:
        return f"Python {self.python}, Airflow {self.airflow}, PySpark {self.pyspark}"

    @property
    def constraints_address(self) -> str:
        return CONSTRAINTS.format(airflow=self.airflow, python=self.python)


COMBINATIONS = (
    Combination("3.10", "3.1.0", "2025-09-26", "4.0.0"),
    Combination("3.11", "3.1.8", "2026-03-12", "4.1.4"),
    Combination("3.12", "3.2.2", "2026-06-01", "4.2.1"),
    Combination("3.13", "3.3.2", "2026-10-20", "4.3.0"),
)
"""Each version at least once, oldest with oldest and newest with newest. All pairs would be four times as many."""


class MissingError(Exception):
    """Something outside of this checkout can't be had.

    :param name: what to call it to have it left out
    """

    def __init__(self, name: str, what: str) -> None:
        super().__init__(what)
        self.name = name


def interpreter(version: str) -> Path:
    """Where a Python of this version is: on the ``PATH``, or where pyenv and uv put theirs.

    :raises MissingError: nowhere
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", Path.home() / ".local/share/uv/python"))
    candidates = [
        *(Path(found) for found in (shutil.which(f"python{version}"),) if found),  # maybe a shim that refuses
        *sorted(pyenv.glob(f"{version}.*/bin/python")),
        *sorted(uv.glob(f"cpython-{version}.*/bin/python3")),
    ]
    check = f"import sys, ssl, sqlite3, venv; sys.exit(sys.version_info[:2] != {tuple(map(int, version.split('.')))})"
    for candidate in candidates:
        if subprocess.run([candidate, "-c", check], check=False, capture_output=True).returncode == 0:  # noqa: S603
            return candidate
    raise MissingError(version, f"no Python {version} is on the PATH (as python{version}), in pyenv or in uv")


def constraints(combination: Combination, folder: Path) -> Path:
    """Airflow's own constraints file; it is kept, since it never changes. Whoever has no network can put it there.

    :raises MissingError: it is not there, and can't be downloaded
    """
    kept = folder / f"airflow-{combination.airflow}-python-{combination.python}.txt"
    if not kept.exists():
        address = combination.constraints_address
        try:
            with urllib.request.urlopen(address, timeout=DOWNLOAD_S) as answer:  # noqa: S310
                text = answer.read()
        except OSError as failed:
            what = f"Airflow's constraints can't be had: {address}: {failed}. Put them into {kept}"
            raise MissingError("constraints", what) from failed
        folder.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(text)
    return kept


def digest(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def state_of_tree(root: Path) -> str:
    """Changes with anything in the checkout that is not ignored."""
    listed = ("git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split("\0")  # noqa: S603
    files = [root / name for name in sorted({*names} - {""})]
    return digest(*(f"{file}:{hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files if file.is_file()))


def pins(report: Path) -> str:
    """What pip would install, as constraints for the environment of the tests. PySpark's version is given there."""
    installed = (each["metadata"] for each in json.loads(report.read_text())["install"])
    named = sorted(f"{metadata['name']}=={metadata['version']}" for metadata in installed)
    left_out = ("pyspark==", "py4j==", "airflow-provider-cooperative-spark==")
    return "".join(f"{pin}\n" for pin in named if not pin.lower().startswith(left_out))


@dataclass(frozen=True)
class Workshop:
    """Where a combination is tested.

    :param root: the checkout
    :param folder: what is kept of the combination: its environment, its wheels, and which steps have passed
    :param shared_wheels: where wheels may lie already
    """

    combination: Combination
    python: Path
    root: Path
    folder: Path
    shared_wheels: Path

    @property
    def _bin(self) -> str:
        return str(self.folder / "venv" / "bin" / "python")

    @property
    def pins(self) -> Path:
        return self.folder / "pins.txt"

    @property
    def report(self) -> Path:
        return self.folder / "report.json"

    def installing(self, limited: Sequence[str]) -> Sequence[Step]:
        """What makes its environment. Only the last needs no network.

        :param limited: pip's option for which versions may be chosen
        """
        wheels, asked = str(self.folder / "wheels"), f"apache-airflow=={self.combination.airflow}"
        environment = ("setuptools>=77", asked, f"pyspark=={self.combination.pyspark}", "-c", str(self.pins))
        dry_run = ("install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(self.report), *limited)
        found = ("--find-links", wheels, "--find-links", str(self.shared_wheels))
        offline = ("--no-index", "--find-links", wheels)
        return (
            self._step("venv", 300, (str(self.python), "-m", "venv", "--clear", "--upgrade-deps", self._venv)),
            self._pip("resolve", 600, *dry_run, asked, "."),
            self._pip("wheels", 1800, "wheel", "--quiet", "-w", wheels, *found, *environment, ".[dev]"),
            self._pip("install", 900, "install", "--quiet", *offline, *environment, "-e", ".[dev]"),
        )

    def testing(self) -> Sequence[Step]:
        return (
            self._step("unit tests", 2400, (*NICE, *self._pytest("tests/unit"))),
            self._step("examples", 1800, (*NICE, *self._pytest(*EXAMPLES))),
        )

    @property
    def _venv(self) -> str:
        return str(self.folder / "venv")

    def _pytest(self, *tests: str) -> Sequence[str]:
        cache = f"cache_dir={self.folder / 'pytest'}"
        return (self._bin, "-m", "pytest", "-q", "-m", "not thorough", "-o", cache, *tests)

    def _pip(self, name: str, limit_s: float, *arguments: str) -> Step:
        return self._step(name, limit_s, (self._bin, "-m", "pip", *arguments))

    def _step(self, name: str, limit_s: float, command: Sequence[str]) -> Step:
        return Step(f"{self.combination.python}, {name}", limit_s, 1, command)


class Passed:
    """Which steps have passed in which state of what they depend on, kept from run to run."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._states: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}

    def __contains__(self, step_and_state: tuple[str, str]) -> bool:
        step, state = step_and_state
        return self._states.get(step) == state

    def note(self, step: str, state: str | None) -> None:
        """``state`` is None if it has not passed."""
        self._states[step] = state or ""
        self._file.write_text(json.dumps(self._states, indent=1))
