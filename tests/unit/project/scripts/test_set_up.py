"""What is missing on a machine is installed where that may be done, and named before anything else runs elsewhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from loaded_scripts import SCRIPTS

JAVA_17 = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
JAVA_11 = "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2"
NAMES = {
    "openjdk-17-jre-headless": "java",
    "chromium": "chromium",
    "chromium-driver": "chromedriver",
    "postgresql": "postgres",
}


def _script(file: Path, does: str) -> None:
    file.write_text(f"#!/bin/sh\n{does}\n")
    file.chmod(0o755)


class Machine:
    """A PATH with the commands that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for tool in ("bash", "sed", "head", "grep", "env", "cp"):
            found = shutil.which(tool)
            assert found is not None
            (folder / tool).symlink_to(found)
        self.has("python3", f'exec {sys.executable} "$@"')

    def has(self, command: str, does: str = ":") -> None:
        _script(self.folder / command, does)

    def is_debian(self, *, user: int, packages: Iterable[str] = tuple(NAMES)) -> None:
        """With an ``apt-get`` whose packages bring what they are for."""
        self.has("id", f"echo {user}")
        pool = self.folder / "pool"
        for package in packages:
            (pool / package).mkdir(parents=True)
            _script(pool / package / NAMES.get(package, "java"), JAVA_17)
        self.has("apt-cache", f'[ -d "{pool}/$3" ] && echo Filename: "$3"')
        self.has(
            "apt-get", f'echo "$@" >> {self.folder}/asked; for each; do cp {pool}/"$each"/* {self.folder}; done; :'
        )

    @property
    def asked(self) -> str:
        """What ``apt-get`` was called with."""
        file = self.folder / "asked"
        return file.read_text() if file.exists() else ""

    def set_up(self, *wanted: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPTS / "set-up", *wanted],
            env={"PATH": str(self.folder), **env},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_that_has_all_is_left_alone_in_silence(machine: Machine) -> None:
    machine.is_debian(user=0)
    machine.has("java", JAVA_17)
    for command in ("chromium", "chromedriver"):
        machine.has(command)
    done = machine.set_up("browser")
    assert (done.returncode, done.stdout, done.stderr, machine.asked) == (0, "", "", "")


def test_root_on_debian_has_what_is_missing_installed_and_is_told(machine: Machine) -> None:
    machine.is_debian(user=0)
    done = machine.set_up("browser")
    assert done.returncode == 0, done.stderr
    wanted = "openjdk-17-jre-headless chromium chromium-driver"
    assert done.stdout == f"Installing with apt-get what is missing: {wanted}\n"
    assert machine.asked.splitlines()[0] == "update -qq"
    assert machine.asked.splitlines()[1].endswith(wanted)


def test_without_a_browser_to_be_tested_none_is_installed(machine: Machine) -> None:
    machine.is_debian(user=0)
    machine.has("java", JAVA_17)
    assert machine.set_up().returncode == 0
    assert machine.asked == ""


def test_postgresql_is_installed_for_the_tests_that_need_it(machine: Machine) -> None:
    machine.is_debian(user=0)
    machine.has("java", JAVA_17)
    assert machine.set_up("postgresql", POSTGRESQL="/no/such/folder").returncode == 0
    assert machine.asked.splitlines()[1].endswith("--no-install-recommends postgresql")


@pytest.mark.parametrize("place", ["on the path", "as Debian has it"])
def test_a_postgresql_that_is_there_is_found(machine: Machine, place: str) -> None:
    machine.has("java", JAVA_17)
    if place == "on the path":
        machine.has("postgres")
    else:
        versions = machine.folder / "versions" / "15" / "bin"
        versions.mkdir(parents=True)
        (versions / "postgres").touch()
    assert machine.set_up("postgresql", POSTGRESQL=str(machine.folder / "versions")).returncode == 0


def test_a_newer_java_is_taken_where_there_is_no_17(machine: Machine) -> None:
    machine.is_debian(user=1000, packages=["openjdk-21-jre-headless"])
    assert "apt-get install openjdk-21-jre-headless\n" in machine.set_up().stderr


def test_others_are_told_the_one_command_that_helps(machine: Machine) -> None:
    machine.is_debian(user=1000)
    machine.has("java", JAVA_11)
    done = machine.set_up("browser")
    assert done.returncode == 1
    assert machine.asked == ""
    assert done.stderr.splitlines() == [
        "Missing: Java 17 or newer, which PySpark and Kafka run on",
        "Missing: Chromium, in which the page is tested",
        "Missing: chromedriver, which steers Chromium",
        "Install it with: sudo apt-get update && sudo apt-get install openjdk-17-jre-headless chromium chromium-driver",
    ]


def test_an_installation_that_brings_nothing_is_no_success(machine: Machine) -> None:
    machine.is_debian(user=0)
    machine.has("apt-get")
    assert machine.set_up().returncode == 1


def test_a_java_home_without_java_is_named_and_nothing_installed(machine: Machine) -> None:
    machine.is_debian(user=0)
    machine.has("java", JAVA_17)
    done = machine.set_up(JAVA_HOME="/no/such/java")
    assert done.returncode == 1
    assert "JAVA_HOME is /no/such/java" in done.stderr
    assert machine.asked == ""


def test_a_python_that_is_too_old_is_named_with_what_helps(machine: Machine) -> None:
    machine.has("old", '[ "$1" = --version ] && echo Python 3.8.1; exit 1')
    done = machine.set_up(PYTHON="old")
    assert done.returncode == 1
    assert "'old' is Python 3.8.1" in done.stderr
    assert "PYTHON=python3.12" in done.stderr
