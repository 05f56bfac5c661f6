"""The worked examples of KIP-415, in its words and in the order of its text.

``AC0`` is the planner of job A, ``AT1`` its first task. As in the KIP, ``assigned`` is all that a worker has after the
round. Everything is computed by the assignor; where the KIP picks one of several equal results, the test says what
must hold instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from assignor_group import Group, planners_in, tasks_in

from airflow_provider.assignment.model import GroupAssignment
from airflow_provider.values.model import PLANNER_INDEX, TaskId, Tasks, WorkerId

D = 300_000
"""The KIP's delay d, ms."""


@dataclass(frozen=True)
class Sent:
    """What the leader sends to one worker."""

    delay: int
    assigned: str
    revoked: str = ""


class Kip(Group):
    """A group that starts with ``config_topic`` configured, written as in the KIP."""

    def __init__(self, config_topic: str, **assigned: str) -> None:
        super().__init__()
        self.jobs = jobs_in(config_topic)
        assert named(self.configured) == config_topic
        if assigned:
            for worker, tasks in assigned.items():
                self.join(worker, owning=parse(tasks))
            self.sends(**{worker: Sent(0, tasks) for worker, tasks in assigned.items()})

    def joins(self, worker: str, owning: str = "") -> None:
        self.join(worker, owning=parse(owning))

    def leaves(self, worker: str) -> None:
        self.leave(worker)

    def sends(self, **expected: Sent) -> None:
        """The leader computes and sends assignments: exactly these, and each worker does as it was assigned."""
        outcome = self.rebalance()
        assert sent(outcome) == expected

    def owns(self, worker: str) -> str:
        return named(self.owned[WorkerId(worker)])


def sent(outcome: GroupAssignment) -> dict[str, Sent]:
    return {
        worker: Sent(outcome.delay_ms, named(outcome.target[worker]), named(outcome.revoked[worker]))
        for worker in outcome.target
    }


def parse(names: str) -> Tasks:
    return frozenset(
        TaskId(job, PLANNER_INDEX if kind == "C" else int(number) - 1)
        for job, kind, number in map(tuple, names.split())
    )


def named(tasks: Tasks) -> str:
    return " ".join(f"{job}C0" if index == PLANNER_INDEX else f"{job}T{index + 1}" for job, index in sorted(tasks))


def jobs_in(names: str) -> dict[str, int]:
    configured = parse(names)
    return {job: sum(task.job == job for task in tasks_in(configured)) for job, _ in planners_in(configured)}


CONFIG_TOPIC = "AC0 AT1 AT2 BC0 BT1"


def three_workers() -> Kip:
    return Kip(CONFIG_TOPIC, W1="AC0 AT1", W2="AT2 BC0", W3="BT1")


class TestWorkerJoins:
    def test_first_new_member_joins(self) -> None:
        group = Kip(CONFIG_TOPIC)
        group.joins("W1")
        group.sends(W1=Sent(delay=0, assigned="AC0 AT1 AT2 BC0 BT1"))

    def test_non_first_new_member_joins(self) -> None:
        group = Kip(CONFIG_TOPIC, W1="AC0 AT1 AT2 BC0 BT1")
        group.joins("W2")
        group.joins("W3")
        group.sends(
            W1=Sent(delay=0, assigned="AC0 AT1", revoked="AT2 BC0 BT1"),
            W2=Sent(delay=0, assigned=""),
            W3=Sent(delay=0, assigned=""),
        )
        # W1 stops what was revoked and rejoins.
        group.sends(
            W1=Sent(delay=0, assigned="AC0 AT1"),
            W2=Sent(delay=0, assigned="AT2 BC0"),
            W3=Sent(delay=0, assigned="BT1"),
        )


class TestWorkerLeaves:
    def test_worker_leaves(self) -> None:
        group = three_workers()
        group.leaves("W2")
        group.sends(W1=Sent(delay=D, assigned="AC0 AT1"), W3=Sent(delay=D, assigned="BT1"))
        group.wait(D)
        outcome = group.rebalance()
        # Where BC0 and AT2 go is open; the KIP has BC0 on W1, which then has both planners.
        assert outcome.delay_ms == 0
        assert not any(outcome.revoked.values())
        assert parse("AC0 AT1") <= group.owned[WorkerId("W1")]
        assert parse("BT1") <= group.owned[WorkerId("W3")]
        assert named(group.owned[WorkerId("W1")] | group.owned[WorkerId("W3")]) == CONFIG_TOPIC
        assert group.planner_counts() == [1, 1]
        assert group.task_counts() == [1, 2]


class TestWorkerBounces:
    def test_worker_bounces(self) -> None:
        group = three_workers()
        group.leaves("W2")
        group.sends(W1=Sent(delay=D, assigned="AC0 AT1"), W3=Sent(delay=D, assigned="BT1"))
        group.wait(100_000)
        group.joins("W2")
        group.sends(
            W1=Sent(delay=D - 100_000, assigned="AC0 AT1"),
            W2=Sent(delay=D - 100_000, assigned=""),
            W3=Sent(delay=D - 100_000, assigned="BT1"),
        )
        group.wait(D - 100_000)
        group.sends(
            W1=Sent(delay=0, assigned="AC0 AT1"),
            W2=Sent(delay=0, assigned="AT2 BC0"),
            W3=Sent(delay=0, assigned="BT1"),
        )


class TestLeaderLeaves:
    def test_leader_leaves(self) -> None:
        group = three_workers()
        group.leaves("W1")
        group.lose_memory()
        outcome = group.rebalance()
        # "Compute and assign resources without a delay": which of the two gets what is open.
        assert outcome.delay_ms == 0
        assert not any(outcome.revoked.values())
        assert parse("AT2 BC0") <= group.owned[WorkerId("W2")]
        assert parse("BT1") <= group.owned[WorkerId("W3")]
        assert named(group.owned[WorkerId("W2")] | group.owned[WorkerId("W3")]) == CONFIG_TOPIC
        assert group.planner_counts() == [1, 1]
        assert group.task_counts() == [1, 2]

    def test_leader_leaves_and_its_memory_is_taken_over(self) -> None:
        """Not in the KIP: the new leader can tell lost work from new work, so W1 has the time that W2 would have."""
        group = three_workers()
        group.leaves("W1")
        group.sends(W2=Sent(delay=D, assigned="AT2 BC0"), W3=Sent(delay=D, assigned="BT1"))

    def test_leader_bounces(self) -> None:
        """The new leader knows that a delay is in progress, so it has the memory of the old one."""
        group = three_workers()
        group.leaves("W2")
        group.sends(W1=Sent(delay=D, assigned="AC0 AT1"), W3=Sent(delay=D, assigned="BT1"))
        group.wait(50_000)
        group.joins("W2")
        group.sends(
            W1=Sent(delay=D - 50_000, assigned="AC0 AT1"),
            W2=Sent(delay=D - 50_000, assigned=""),
            W3=Sent(delay=D - 50_000, assigned="BT1"),
        )
        group.wait(50_000)
        group.leaves("W1")
        group.sends(W2=Sent(delay=D - 100_000, assigned=""), W3=Sent(delay=D - 100_000, assigned="BT1"))
        group.wait(50_000)
        group.joins("W1")
        group.sends(
            W1=Sent(delay=D - 150_000, assigned=""),
            W2=Sent(delay=D - 150_000, assigned=""),
            W3=Sent(delay=D - 150_000, assigned="BT1"),
        )
        group.wait(D - 150_000)
        # The KIP gives no guarantee that each gets its own again, and has them swapped. Here each does.
        group.sends(
            W1=Sent(delay=0, assigned="AC0 AT1"),
            W2=Sent(delay=0, assigned="AT2 BC0"),
            W3=Sent(delay=0, assigned="BT1"),
        )
