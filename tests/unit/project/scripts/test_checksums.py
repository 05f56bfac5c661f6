"""What ``make`` takes from a package index is known by its checksum."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType

import pytest
from loaded_scripts import SCRIPTS, load
from served import served

FILES = (
    "some_thing-2.0-cp311-cp311-manylinux2014_x86_64.whl",
    "some_thing-2.0-cp39-abi3-manylinux_2_28_aarch64.whl",
    "some_thing-2.0-py3-none-any.whl",
    "some_thing-2.0.tar.gz",
)
OTHERS = (
    "some_thing-2.0-cp311-cp311-macosx_11_0_arm64.whl",
    "some_thing-2.0-cp313-cp313t-manylinux2014_x86_64.whl",
    "some_thing-2.0-cp39-cp39-manylinux2014_x86_64.whl",
    "some_thing-2.1-py3-none-any.whl",
    "some_thing-bin.zip",
)
PYTHON = """#!/usr/bin/env bash
if [ "$1 $2" != "-m pip" ]; then exec ${{PINS:-{python}}} "$@"; fi
echo "${{@:3}}" >> {heard}
while [ $# != 0 ]; do if [ "$1" = -r ]; then cat "$2" >> {heard}; fi; shift; done
"""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load("checksums")


@pytest.fixture
def index() -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/simple/some-thing/"
            files = [{"filename": name, "hashes": {"sha256": name[-9:]}} for name in (*FILES, *OTHERS)]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"files": files}).encode())

    with served(Answers) as port:
        yield f"http://127.0.0.1:{port}/simple/"


def test_each_pin_has_checksums_and_nothing_else_has(script: ModuleType) -> None:
    assert len(list(script.with_checksums(list(script.pins()), script.read()))) > 100
    pinned = {(script.canonicalize_name(pin.name), str(pin.specifier).removeprefix("==")) for pin in script.pins()}
    assert {script.version_in(file) for file in script.read()} == pinned


def test_a_pin_without_a_checksum_is_refused(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match=r"no checksum of some-thing==2\.1: CONTRIBUTING\.md says"):
        list(script.with_checksums([script.Requirement("some-thing==2.1")], {FILES[-1]: "aa"}))


def test_an_index_is_asked_for_what_runs_on_linux(script: ModuleType, index: str) -> None:
    asked = script.of_index(index, script.Requirement("Some.Thing==2.0"))
    assert set(asked) == set(FILES)
    text = script.written([asked])
    assert f"{FILES[2][-9:]}  {FILES[2]}\n" in text


def test_nothing_is_fetched_if_a_pin_has_no_checksum(tmp_path: Path) -> None:
    heard, python, folder = tmp_path / "heard", tmp_path / "python", tmp_path / "wheels"
    refuses = tmp_path / "refuses"
    refuses.write_text(f'#!/usr/bin/env bash\nif [ "$1" = -c ]; then exec {sys.executable} "$@"; fi\nexit 1\n')
    python.write_text(PYTHON.format(python=sys.executable, heard=heard))
    for program in (refuses, python):
        program.chmod(0o755)
    environment = {**os.environ, "PINS": str(refuses)}
    assert subprocess.run([SCRIPTS / "fetch-wheels", python, folder], env=environment, check=False).returncode
    assert not heard.exists()
    assert not folder.exists()


def test_nothing_is_fetched_without_a_checksum_and_nothing_twice(tmp_path: Path) -> None:
    heard, python, folder = tmp_path / "heard", tmp_path / "python", tmp_path / "wheels"
    python.write_text(PYTHON.format(python=sys.executable, heard=heard))
    python.chmod(0o755)

    def fetch(*names: str) -> str:
        subprocess.run([SCRIPTS / "fetch-wheels", python, folder, *names], check=True, capture_output=True)
        return heard.read_text()

    assert fetch("pyspark", "py4j") == fetch("py4j")
    said = fetch()
    calls = [line for line in said.splitlines() if line.startswith(("install", "wheel"))]
    assert calls == [*calls[:2]] * 2, "what is named, and then the others"
    assert all("--require-hashes" in call for call in calls)
    pins = [line for line in said.splitlines() if "==" in line]
    assert len(pins) > 100
    assert len(pins) - len({*pins}) == 2, "only setuptools, which builds wheels, is asked for twice"
    assert all("--hash=sha256:" in pin for pin in pins)
    assert fetch() == said
