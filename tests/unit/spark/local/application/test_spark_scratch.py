"""Temporary folders: of processes that live, of those that were killed, and of others."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider.spark.local.application.scratch_folder import ScratchFolder

_OWNER = """
import sys
from airflow_provider.spark.local.application.scratch_folder import ScratchFolder
folder = ScratchFolder()
(folder.path / "data").write_text("much")
print(folder.path, flush=True)
sys.stdin.read()
"""

_SENDER = """
import sys
from pathlib import Path
from airflow_provider.spark.connect.shipping import Parcels

class Session:
    def addArtifacts(self, *archives, pyfile):
        print(Path(archives[0]).parent, flush=True)

parcels = Parcels()
parcels.send(Session(), "a_job")
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def another_process(what: str = _OWNER) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    process = subprocess.Popen([sys.executable, "-c", what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_what_a_killed_process_left_is_removed_at_the_next_start_and_what_is_in_use_is_not(temporary: Path) -> None:
    with another_process() as (killed, left), another_process() as (_, used):
        assert left.parent == used.parent == temporary
        killed.kill()
        killed.wait()
        assert (left / "data").exists()
        mine = ScratchFolder()
        assert not left.exists()
        assert (used / "data").exists()
        ScratchFolder().remove()
        assert mine.path.exists(), "of this very process"
        mine.remove()
        mine.remove()
    assert [path for path in temporary.iterdir() if path != used] == []


def test_what_somebody_else_has_put_there_is_left_alone(temporary: Path) -> None:
    kept = temporary / "home"
    kept.mkdir()
    (kept / ".owned").touch()
    (temporary / "cospark-spark-link").symlink_to(kept)
    (temporary / "cospark-spark-file").touch()
    (temporary / "cospark-spark-begun").mkdir()  # whose owner has not come to lock it yet
    ScratchFolder().remove()
    assert {path.name for path in temporary.iterdir()} == {
        "home",
        "cospark-spark-link",
        "cospark-spark-file",
        "cospark-spark-begun",
    }
    assert (kept / ".owned").exists()


def test_what_a_killed_worker_has_packed_for_a_server_goes_with_the_next_start(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = temporary / "modules"
    modules.mkdir()
    (modules / "a_job.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(modules), *sys.path]))
    with another_process(_SENDER) as (killed, packed):
        ScratchFolder().remove()
        assert list(packed.glob("*")), "it is in use"
        killed.kill()
        killed.wait()
        ScratchFolder().remove()
        assert not packed.exists()
