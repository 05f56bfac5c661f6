"""Tasks that failed for good are retried where they failed, without a round."""

from __future__ import annotations

import pytest
from simulation.failure_actions import FailTask, MeetAnotherWriter, TryAgain
from simulation.world import NO_LIMIT, World

from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.values.model import ConnectProtocol, TaskId, Tasks, WorkerId

MAX_DELAY_MS = 20_000
SLOTS = 3
TASKS = frozenset(TaskId("a", index) for index in range(9))
COOPERATIVE = [ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED, ConnectProtocol.EXTENSIBLE]


class Group:
    """Three workers with nine tasks, at rest."""

    def __init__(self, protocol: ConnectProtocol = ConnectProtocol.SESSIONED, *, slots: int = NO_LIMIT) -> None:
        self.protocol = protocol
        settings = MemberSettings(group_id="g", worker=WorkerId("template"), protocol=protocol)
        self.world = World(3, policy=Deferred(max_delay_ms=MAX_DELAY_MS), slots=(slots,), settings=settings)
        self.world.configure(TASKS)
        for name in ("w1", "w2", "w3"):
            self.world.start(name)
        self.rest()

    def rest(self) -> None:
        self.world.run(3 * MAX_DELAY_MS)
        self.world.run_until(lambda: self.world.settled)

    @property
    def rounds(self) -> int:
        return len(self.world.coordinator.rounds)

    def running(self) -> dict[str, Tasks]:
        return {worker: self.world.running(worker) for worker in self.world.live}

    def since(self) -> dict[TaskId, int]:
        """The start of each running task."""
        return {task: at for process in self.world.members for task, at in process.running.items()}

    def fail(self, worker: str, number: int) -> Tasks:
        """Fail this number of a worker's tasks."""
        failing = sorted(self.world.running(worker))[:number]
        for task in failing:
            assert FailTask(after_ms=0, task=task).apply(self.world)
        self.world.run(1_000)
        return frozenset(failing)

    def try_again(self) -> None:
        assert TryAgain(after_ms=0, job="a").apply(self.world)
        self.rest()


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("protocol", list(ConnectProtocol))
def test_tasks_are_tried_again_where_they_failed_in_the_same_epoch_and_nothing_else_stops(
    protocol: ConnectProtocol, number: int
) -> None:
    group = Group(protocol)
    before, rounds = group.running(), group.rounds
    failed = group.fail("w1", number) | group.fail("w2", number)
    others = group.since()
    group.try_again()
    assert group.running() == before
    assert group.rounds == rounds
    assert {task: at for task, at in group.since().items() if task not in failed} == others


@pytest.mark.parametrize("protocol", list(ConnectProtocol))
def test_tasks_that_meet_another_writer_wait_for_it_where_they_are(protocol: ConnectProtocol) -> None:
    group = Group(protocol)
    before, rounds = group.running(), group.rounds
    met = sorted(group.world.running("w1"))[:2]
    others = {task: at for task, at in group.since().items() if task not in met}
    for _ in range(4):
        for task in met:
            assert MeetAnotherWriter(after_ms=0, task=task).apply(group.world)
        group.rest()
    assert group.running() == before
    assert group.rounds == rounds
    assert others.items() <= group.since().items()


@pytest.mark.parametrize("protocol", COOPERATIVE)
def test_rounds_in_between_leave_them_where_they_are(protocol: ConnectProtocol) -> None:
    group = Group(protocol)
    failed = group.fail("w1", 2)
    group.world.start("w4")
    group.rest()
    group.world.leave("w2")
    group.rest()
    rounds, others = group.rounds, group.since()
    group.try_again()
    assert failed <= group.world.running("w1")
    assert group.rounds == rounds
    assert others.items() <= group.since().items()


@pytest.mark.parametrize("protocol", list(ConnectProtocol))
def test_a_process_that_takes_over_the_membership_keeps_them(protocol: ConnectProtocol) -> None:
    group = Group(protocol)
    failed = group.fail("w1", 1)
    rounds = group.rounds
    group.world.hand_over_and_go_on("w1", 100)
    group.rest()
    group.try_again()
    assert failed <= group.world.running("w1")
    assert group.rounds == rounds


@pytest.mark.parametrize("protocol", COOPERATIVE)
def test_a_worker_that_is_back_within_its_session_keeps_them(protocol: ConnectProtocol) -> None:
    group = Group(protocol)
    failed = group.fail("w1", 1)
    rounds = group.rounds
    group.world.bounce("w1", 4_000, protocol=protocol)
    group.rest()
    group.try_again()
    assert failed <= group.world.running("w1")
    assert group.rounds == rounds


def test_after_an_eager_round_they_have_no_owner_until_another_round_assigns_them() -> None:
    group = Group(ConnectProtocol.EAGER)
    failed = group.fail("w1", 1)
    group.world.start("w4")
    group.rest()
    rounds = group.rounds
    group.try_again()
    assert failed <= frozenset().union(*group.running().values())
    assert group.rounds > rounds


@pytest.mark.parametrize("protocol", list(ConnectProtocol))
def test_a_round_assigns_them_elsewhere_if_their_worker_is_gone(protocol: ConnectProtocol) -> None:
    group = Group(protocol)
    group.fail("w1", 1)
    group.world.leave("w1")
    group.rest()
    rounds = group.rounds
    group.try_again()
    assert frozenset().union(*group.running().values()) == TASKS
    assert group.rounds > rounds


def test_a_retried_task_without_a_slot_goes_where_one_is_free() -> None:
    group = Group(slots=SLOTS)
    failed = group.fail("w1", 1)
    group.world.configure(TASKS | {TaskId("b", 0)})
    group.rest()
    assert len(group.world.running("w1")) == SLOTS, "a failed task keeps its place, but takes no slot"
    group.world.start("w4")
    group.rest()
    group.try_again()
    assert failed <= frozenset().union(*group.running().values())
