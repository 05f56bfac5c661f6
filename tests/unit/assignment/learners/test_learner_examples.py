"""The worked examples of the proposal of learner tasks, round by round, in its words.

``T1`` is the task of a stateful job without a planner. What a member joins with is what its rule has left it; what the
leader sends is computed by the assignor, and must be exactly what stands here. What the proposal calls ``revoked`` is
what a member has stopped before it joined.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from learner_group import LearnerGroup

from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import TaskId, Tasks, WorkerId


@dataclass(frozen=True)
class Sent:
    """What a member joins with, or what the leader sends to it."""

    assigned: str
    learning: str = ""


class Example(LearnerGroup):
    """T1 to T5 in a group that is stable, with each member as it is written there."""

    def __init__(self, rule: LearnedRule, jobs: dict[str, int], **members: str) -> None:
        super().__init__(jobs, rule=rule)
        self.planners = False
        self.names = {f"T{number}": task for number, task in enumerate(sorted(self.configured), start=1)}
        for worker, tasks in members.items():
            self.join(worker, owning=self.parse(tasks))
        if members:
            self.assigns("", **{worker: Sent(tasks) for worker, tasks in members.items()})

    def joins(self, **expected: Sent) -> None:
        """A rebalance begins, and the members join with exactly this."""
        self.join_group()
        assert {
            worker: Sent(self.shown(tasks), self.shown(self.learning[worker])) for worker, tasks in self.owned.items()
        } == expected

    def assigns(self, shutdown: str = "", /, **expected: Sent) -> None:
        """The leader performs task assignments: exactly these.

        :param shutdown: who shuts down, for it has no assigned task left
        """
        outcome = self.rebalance()
        sent = {
            worker: Sent(self.shown(tasks), self.shown(outcome.learning[worker]))
            for worker, tasks in outcome.target.items()
        }
        assert sent == expected
        assert " ".join(sorted(outcome.shutdown)) == shutdown
        assert outcome.delay_ms == 0

    def finishes(self, worker: str) -> None:
        """It finishes its replay and becomes ready."""
        self.gets_ready(worker)

    def parse(self, names: str) -> Tasks:
        return frozenset(self.names[name] for name in names.split())

    def shown(self, tasks: Tasks | dict[TaskId, float]) -> str:
        return " ".join(name for name, task in self.names.items() if task in tasks)


tasks_of_one_job_or_of_five = pytest.mark.parametrize(
    "jobs", [{"T": 5}, {"T1": 1, "T2": 1, "T3": 1, "T4": 1, "T5": 1}], ids=["one job", "five jobs"]
)


@tasks_of_one_job_or_of_five
class TestScaleUpRunningApplication:
    def test_at_rebalance(self, jobs: dict[str, int]) -> None:
        group = Example(LearnedRule.AT_REBALANCE, jobs, S1="T1 T2", S2="T3 T4", S3="T5")
        # First rebalance: new member S4 joins the group.
        group.join("S4")
        group.joins(S1=Sent("T1 T2"), S2=Sent("T3 T4"), S3=Sent("T5"), S4=Sent(""))
        group.assigns(S1=Sent("T1 T2"), S2=Sent("T3 T4"), S3=Sent("T5"), S4=Sent("", learning="T1"))
        # Second rebalance: new member S5 joins the group. S4 is not ready yet.
        group.join("S5")
        group.joins(S1=Sent("T2"), S2=Sent("T3 T4"), S3=Sent("T5"), S4=Sent("", learning="T1"), S5=Sent(""))
        group.assigns(
            S1=Sent("T1 T2"),
            S2=Sent("T3 T4"),
            S3=Sent("T5"),
            S4=Sent("", learning="T1"),
            S5=Sent("", learning="T3"),
        )
        # Third rebalance: S4 is ready. S5 is not ready yet.
        group.finishes("S4")
        group.joins(S1=Sent("T2"), S2=Sent("T4"), S3=Sent("T5"), S4=Sent("", learning="T1"), S5=Sent("", learning="T3"))
        group.assigns(S1=Sent("T2"), S2=Sent("T3 T4"), S3=Sent("T5"), S4=Sent("T1"), S5=Sent("", learning="T3"))
        # Fourth rebalance: S5 is ready.
        group.finishes("S5")
        group.joins(S1=Sent("T2"), S2=Sent("T4"), S3=Sent("T5"), S4=Sent("T1"), S5=Sent("", learning="T3"))
        group.assigns(S1=Sent("T2"), S2=Sent("T4"), S3=Sent("T5"), S4=Sent("T1"), S5=Sent("T3"))
        # Now the group reaches balance with 5 members and 5 tasks.
        assert group.settle() == 0

    def test_when_ready(self, jobs: dict[str, int]) -> None:
        """The same rounds, and nothing stops but what moves."""
        group = Example(LearnedRule.WHEN_READY, jobs, S1="T1 T2", S2="T3 T4", S3="T5")
        group.join("S4")
        group.assigns(S1=Sent("T1 T2"), S2=Sent("T3 T4"), S3=Sent("T5"), S4=Sent("", learning="T1"))
        group.join("S5")
        group.joins(S1=Sent("T1 T2"), S2=Sent("T3 T4"), S3=Sent("T5"), S4=Sent("", learning="T1"), S5=Sent(""))
        group.assigns(
            S1=Sent("T1 T2"),
            S2=Sent("T3 T4"),
            S3=Sent("T5"),
            S4=Sent("", learning="T1"),
            S5=Sent("", learning="T3"),
        )
        group.finishes("S4")
        group.joins(
            S1=Sent("T2"), S2=Sent("T3 T4"), S3=Sent("T5"), S4=Sent("", learning="T1"), S5=Sent("", learning="T3")
        )
        group.assigns(S1=Sent("T2"), S2=Sent("T3 T4"), S3=Sent("T5"), S4=Sent("T1"), S5=Sent("", learning="T3"))
        group.finishes("S5")
        group.assigns(S1=Sent("T2"), S2=Sent("T4"), S3=Sent("T5"), S4=Sent("T1"), S5=Sent("T3"))
        assert group.settle() == 0


@tasks_of_one_job_or_of_five
@pytest.mark.parametrize("rule", LearnedRule)
def test_scale_down(rule: LearnedRule, jobs: dict[str, int]) -> None:
    group = Example(rule, jobs, S1="T1 T2", S2="T3 T4", S3="T5")
    # First rebalance: S2 joins the group and claims that it is leaving.
    group.asks_to_leave("S2")
    group.assigns(S1=Sent("T1 T2", learning="T3"), S2=Sent("T3 T4"), S3=Sent("T5", learning="T4"))
    # Second rebalance: S3 finishes replay first. S1 is not ready yet. (In the proposal S2 has kept T3.)
    group.finishes("S3")
    kept = "T3" if rule is LearnedRule.WHEN_READY else ""
    group.joins(S1=Sent("T1 T2", learning="T3"), S2=Sent(kept), S3=Sent("T5", learning="T4"))
    group.assigns(S1=Sent("T1 T2", learning="T3"), S2=Sent("T3"), S3=Sent("T4 T5"))
    # Third rebalance: S1 finishes replay. S2 will shut down, since there is no assigned task left.
    group.finishes("S1")
    group.joins(S1=Sent("T1 T2", learning="T3"), S2=Sent(""), S3=Sent("T4 T5"))
    group.assigns("S2", S1=Sent("T1 T2 T3"), S2=Sent(""), S3=Sent("T4 T5"))
    assert group.owned.keys() == {WorkerId("S1"), WorkerId("S3")}
    assert group.settle() == 0


@tasks_of_one_job_or_of_five
@pytest.mark.parametrize("rule", LearnedRule)
def test_scaling_up_from_an_empty_group(rule: LearnedRule, jobs: dict[str, int]) -> None:
    """The proposal leaves this open. Nobody runs anything, so nothing is worth waiting for."""
    group = Example(rule, jobs)
    group.join("S1")
    group.assigns(S1=Sent("T1 T2 T3 T4 T5"))
    group.join("S2")
    group.assigns(S1=Sent("T1 T2 T3 T4 T5"), S2=Sent("", learning="T1 T2"))
    # S3 joins while S2 learns: S2 goes on.
    group.join("S3")
    group.assigns(S1=Sent("T1 T2 T3 T4 T5"), S2=Sent("", learning="T1 T2"), S3=Sent("", learning="T3"))
    group.finishes("S2")
    group.assigns(S1=Sent("T3 T4 T5"), S2=Sent("T1 T2"), S3=Sent("", learning="T3"))
    group.finishes("S3")
    group.assigns(S1=Sent("T4 T5"), S2=Sent("T1 T2"), S3=Sent("T3"))
    assert group.settle() == 0


def test_an_owner_that_does_not_know_of_the_readiness_stops_in_a_round_of_its_own() -> None:
    group = Example(LearnedRule.WHEN_READY, {"T": 2}, S1="T1 T2")
    group.join("S2")
    group.assigns(S1=Sent("T1 T2"), S2=Sent("", learning="T1"))
    group.gets_ready("S2", owners_know=False)
    group.joins(S1=Sent("T1 T2"), S2=Sent("", learning="T1"))
    group.assigns(S1=Sent("T2"), S2=Sent("", learning="T1"))
    group.assigns(S1=Sent("T2"), S2=Sent("T1"))
    assert group.settle() == 0
