"""Which versions of Airflow, PySpark and Python are tested together, and what is done with each such combination."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from steps import NICE, Step

CONSTRAINTS = "https://raw.githubusercontent.com/apache/airflow/constraints-{airflow}/constraints-{python}.txt"
"""Airflow's own for a release, as its installation guide names them."""
DOWNLOAD_S = 30.0
PROJECT = "airflow-provider-cooperative-spark"
SHARING_DEPENDENCIES = ("apache-airflow-providers-apache-kafka", "apache-airflow-providers-apache-spark")
EXAMPLES = (
    "tests/system/test_example_dags.py",
    "tests/system/test_scheduling.py::test_a_job_that_ends_and_a_worker_that_is_lost_start_the_example_dags",
)


@dataclass(frozen=True)
class Combination:
    """Versions that are tested together.

    :param released: the day after this Airflow's release. Airflow's constraints have the newest of everything as of a
        release; where they can't be had, what Airflow and the providers that share dependencies with this package would
        have got by this day stands in for them.
    :param extras: of this package, that go with this Airflow's constraints
    """

    python: str
    airflow: str
    released: str
    pyspark: str
    extras: str = "dev"

    def __str__(self) -> str:
        return f"Python {self.python}, Airflow {self.airflow}, PySpark {self.pyspark}"

    @property
    def constraints_address(self) -> str:
        return CONSTRAINTS.format(airflow=self.airflow, python=self.python)


COMBINATIONS = (
    Combination("3.10", "3.1.0", "2025-09-26", "4.0.0"),
    Combination("3.11", "3.1.8", "2026-03-12", "4.1.4"),
    Combination("3.12", "3.2.1", "2026-04-23", "4.2.1"),
    Combination("3.13", "3.3.2", "2026-10-20", "4.3.0", extras="dev,openlineage"),
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


def pins(report: Path, *, without: Collection[str] = ()) -> str:
    """What pip would install, as constraints.

    :param without: names in lower case
    """
    installed = (each["metadata"] for each in json.loads(report.read_text())["install"])
    named = {metadata["name"]: metadata["version"] for metadata in installed}
    return "".join(f"{name}=={named[name]}\n" for name in sorted(named) if name.lower() not in {*without, PROJECT})


def _nothing() -> None:
    """Nothing more is to be done."""


@dataclass(frozen=True)
class Part:
    """A step of testing a combination.

    :param tests: it tests the whole checkout, and the next step does not stand on it
    :param keep: what is to be done when it has passed
    """

    step: Step
    tests: bool = False
    keep: Callable[[], object] = _nothing


@dataclass(frozen=True)
class Workshop:
    """Where a combination is tested.

    :param root: the checkout
    :param folder: what is kept of the combination: its environment, its wheels, and which steps have passed
    :param shared_wheels: where wheels may lie already
    :param constraints: Airflow's own; None: the versions of the day stand in for them
    """

    combination: Combination
    python: Path
    root: Path
    folder: Path
    shared_wheels: Path
    constraints: Path | None

    def parts(self) -> Sequence[Part]:
        """Only the first ones, up to the wheels, need a network."""
        asked = f"apache-airflow=={self.combination.airflow}"
        day = ("--uploaded-prior-to", f"{self.combination.released}T00:00:00Z", asked, *SHARING_DEPENDENCIES)
        found = ("--find-links", self._wheels, "--find-links", str(self.shared_wheels))
        offline = ("--no-index", "--find-links", self._wheels)
        versions = (asked, f"pyspark=={self.combination.pyspark}", "-c", str(self._file("resolve.txt")))
        environment = ("--quiet", "setuptools>=77", *versions)
        own = self.constraints or self._file("day.txt")
        return (
            self._part("venv", str(self.python), "-m", "venv", "--clear", "--upgrade-deps", self._venv),
            *(() if self.constraints else (self._resolving("day", (), *day),)),
            self._resolving("resolve", ("pyspark", "py4j"), asked, ".", "-c", str(own)),
            self._part("wheels", *self._pip("wheel", "-w", self._wheels, *found, *environment, self._package)),
            self._part("install", *self._pip("install", *offline, *environment, "-e", self._package)),
            self._tests("unit tests", NICE, "tests/unit"),
            self._tests("examples", 0, *EXAMPLES),
        )

    @property
    def _package(self) -> str:
        return f".[{self.combination.extras}]"

    @property
    def _venv(self) -> str:
        return str(self._file("venv"))

    @property
    def _wheels(self) -> str:
        return str(self._file("wheels"))

    @property
    def _bin(self) -> str:
        return str(self._file("venv") / "bin" / "python")

    def _file(self, name: str) -> Path:
        return self.folder / name

    def _pip(self, *arguments: str) -> Sequence[str]:
        return (self._bin, "-m", "pip", *arguments)

    def _resolving(self, name: str, without: Collection[str], *asked: str) -> Part:
        """Pip says what it would install; that is kept as constraints."""
        report = self._file(f"{name}.json")
        said = ("install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(report), *asked)

        def keep() -> None:
            report.with_suffix(".txt").write_text(pins(report, without=without))

        return replace(self._part(name, *self._pip(*said)), keep=keep)

    def _tests(self, name: str, nice: int, *tests: str) -> Part:
        cache = f"cache_dir={self._file('pytest')}"
        pytest = (self._bin, "-m", "pytest", "-q", "-p", "no:anyio", "-m", "not thorough", "-o", cache, *tests)
        part = self._part(name, *pytest)
        return replace(part, step=replace(part.step, nice=nice), tests=True)

    def _part(self, name: str, *command: str) -> Part:
        return Part(Step(f"{self.combination.python}, {name}", 1, command))


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
