"""Copies of checkpoints beside each other: whose they are, and which of them nobody uses any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from hadoop_files import Files, make_older, session_with_files

from airflow_provider.spark.local.streaming import rehearsal_folder
from airflow_provider.spark.local.streaming.checkpoint_copy import CheckpointCopy
from airflow_provider.spark.local.streaming.rehearsal_folder import ABANDONED_MS

LATER_MS = ABANDONED_MS + 60_000


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job's folder, in which two tasks have done three batches."""
    for task in ("0", "key=orders"):
        for folder in ("state", "sources", "commits", "offsets"):
            (tmp_path / task / folder).mkdir(parents=True)
        for folder in ("commits", "offsets"):
            for batch in range(3):
                (tmp_path / task / folder / str(batch)).write_text("v1")
    return tmp_path


def copies(job: Path) -> list[Path]:
    return sorted(job.glob("rehearsal-*"))


def copy_of(job: Path, task: str = "0") -> CheckpointCopy:
    return CheckpointCopy(session_with_files(), str(job / task))


def killed_while_it_copies(job: Path, after: int) -> Path:
    """What a process has left that was killed when it had copied so many files."""
    asked = 0

    def kill() -> bool:
        nonlocal asked
        asked += 1
        if asked > after:
            raise KeyboardInterrupt
        return False

    before = copies(job)
    with pytest.raises(KeyboardInterrupt):
        copy_of(job).make(kill)
    (left,) = set(copies(job)) - set(before)
    return left


def age(copy: Path, ms: int) -> None:
    for path in [*copy.rglob("*"), copy]:
        make_older(path, ms)


@pytest.mark.parametrize("copied", [0, 1, 2])
@pytest.mark.parametrize("task", ["0", "key=orders"])
def test_what_a_killed_process_has_left_goes_when_a_task_of_its_job_is_rehearsed_later(
    job: Path, copied: int, task: str
) -> None:
    left = killed_while_it_copies(job, copied)
    age(left, LATER_MS)
    copy = copy_of(job, task)
    assert copy.make(lambda: False)
    assert copies(job) == [Path(copy.location)]
    copy.remove()
    assert sorted(path.name for path in job.iterdir()) == ["0", "key=orders"]


def test_a_copy_that_may_be_in_use_stays(job: Path) -> None:
    young = killed_while_it_copies(job, 1)
    age(young, ABANDONED_MS // 2)
    old = copy_of(job)
    assert old.make(lambda: False)
    age(Path(old.location), LATER_MS)
    make_older(Path(old.location, "metadata"), -LATER_MS)  # it has signed since
    assert copy_of(job).make(lambda: False)
    assert {young, Path(old.location)} < set(copies(job))


def test_an_empty_copy_is_as_old_as_its_folder(job: Path) -> None:
    torn, begun = job / "rehearsal-00000000-0", job / "rehearsal-00000001-0"
    torn.mkdir()
    begun.mkdir()
    age(torn, LATER_MS)
    copy = copy_of(job)
    copy.make(lambda: False)
    assert copies(job) == sorted([begun, Path(copy.location)])


@pytest.mark.parametrize("long", ["to copy", "to be rehearsed"])
def test_what_takes_long_says_again_that_its_copy_is_used(
    job: Path, monkeypatch: pytest.MonkeyPatch, long: str
) -> None:
    monkeypatch.setattr(rehearsal_folder, "_SIGN_EVERY_S", -1.0)
    copy = copy_of(job)

    def pass_by() -> bool:
        age(Path(copy.location), LATER_MS)
        return False

    copy.make(pass_by if long == "to copy" else lambda: False)
    if long == "to be rehearsed":
        pass_by()
        copy.rewind()
    copy_of(job).make(lambda: False)
    assert Path(copy.location) in copies(job)


def test_what_cannot_be_removed_is_no_obstacle(
    job: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_files: Files, _path: object, _recursive: bool) -> bool:
        raise PermissionError

    age(killed_while_it_copies(job, 1), LATER_MS)
    monkeypatch.setattr(Files, "delete", refuse)
    assert copy_of(job).make(lambda: False)
    assert "Could not remove what rehearsals have left" in caplog.text
