"""What a leader thinks of a task that has failed for good and is tried again: whether its worker has it still."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from led_group import EPOCH, Group

from airflow_provider.group.live.classic.leading import unassigned_work
from airflow_provider.state.records import TaskState, TaskStatus, WorkerPhase, WorkerStatus
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.model import Epoch, TaskId, Tasks, WorkerId
from airflow_provider.values.replacing import replaced

W1, FAILED = WorkerId("w1"), TaskId("a", 0)


class Tried(Group):
    """w1 has two tasks, and one of them has failed."""

    def __init__(self) -> None:
        super().__init__({"w1": "r r", "w2": "r r"})

    def say(self, state: TaskState, *, kept: bool, epoch: Epoch = EPOCH) -> None:
        last = self.status.tasks[FAILED]
        word: TaskStatus = replaced(last, state=state, kept=kept, epoch=epoch, attempt=last.attempt + 1)
        self.status = replace(self.status, tasks={**self.status.tasks, FAILED: word})

    def has(self, owned: Tasks) -> None:
        """w1 says what it has."""
        said = WorkerStatus(worker=W1, state=WorkerPhase.STABLE, epoch=EPOCH, slots=2, owned=owned)
        workers: Mapping[WorkerId, WorkerStatus] = {**self.status.workers, W1: said}
        self.status = replace(self.status, workers=workers)

    @property
    def reason(self) -> str | None:
        status: StatusSnapshot = self.status
        return unassigned_work(self.jobs, status)


@pytest.mark.parametrize("epoch", [EPOCH, Epoch(EPOCH - 1)], ids=["in this epoch", "before"])
def test_what_its_worker_keeps_needs_no_round(epoch: Epoch) -> None:
    group = Tried()
    group.say(TaskState.FAILED, kept=True, epoch=epoch)
    assert FAILED not in configured(group.jobs, group.status.tasks)
    assert group.reason is None
    group.say(TaskState.UNASSIGNED, kept=True, epoch=epoch)
    assert FAILED in configured(group.jobs, group.status.tasks)
    assert group.reason is None


def test_what_its_worker_has_not_kept_needs_one() -> None:
    """It is of an older release."""
    group = Tried()
    group.say(TaskState.UNASSIGNED, kept=False)
    assert group.reason == "new work: a:0"


def test_what_it_has_let_go_of_since_needs_one() -> None:
    group = Tried()
    group.say(TaskState.UNASSIGNED, kept=True)
    group.has(group.record.owned_by(W1))
    assert group.reason is None
    group.has(group.record.owned_by(W1) - {FAILED})
    assert group.reason == "new work: a:0"
