"""The proposal's worked examples of learner tasks, round by round and in its words: played by members, a coordinator
and a leader, and compared with what goes over the wire.

``T1`` is the task of a stateful job. *Members join with the following metadata*: the tasks that each still has, has
stopped, and learns. *The leader performs task assignments*: all tasks that each is to have, and to learn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import pytest
from simulation.world import SETTINGS, World

from airflow_provider.group.classic.member.state import Phase
from airflow_provider.state.records import ControlAction
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import NO_TASKS, ConnectProtocol, TaskId, Tasks, WorkerId

AT_REBALANCE, WHEN_READY = LearnedRule.AT_REBALANCE, LearnedRule.WHEN_READY
NEVER_MS = 10**9
NOTHING_FOLLOWS_MS = 4_000
SESSION_MS = 10_000


class Says(NamedTuple):
    assigned: str = ""
    revoked: str = ""
    learning: str = ""


class Group:
    """Workers whose learning the test controls, and what was said in each rebalance.

    :param stateless: tasks without state to restore
    """

    def __init__(self, rule: LearnedRule, tasks: str = "T1 T2 T3 T4 T5", stateless: str = "") -> None:
        self.tasks = tasks.split()
        self.world = World(
            5,
            settings=replace(SETTINGS, protocol=ConnectProtocol.EXTENSIBLE),
            stateful=frozenset(self.tasks) - frozenset(stateless.split()),
            learned=(rule,),
            warm_ms=(NEVER_MS, NEVER_MS),
        )
        self.rebalances = 0
        self.stopped: list[str] = []
        self._running: dict[TaskId, WorkerId] = {}
        self.world.watch(self._look)

    @classmethod
    def stable(cls, rule: LearnedRule, *workers: str, stateless: str = "", **jobs: str) -> Group:
        """The group stable state: each worker has the listed tasks."""
        shares = {worker: tasks.split() for worker, tasks in jobs.items()}
        group = cls(rule, " ".join(sorted(task for tasks in shares.values() for task in tasks)), stateless)
        for worker in (*shares, *workers):
            group.starts(worker)
        configured: list[str] = []
        for column in range(max(map(len, shares.values()))):  # each gets one more, in the order of names
            configured += [tasks[column] for tasks in shares.values() if column < len(tasks)]
            group.configure(configured)
        assert {worker: group.world.running(worker) for worker in shares} == {
            worker: parse(tasks) for worker, tasks in jobs.items()
        }
        group.rebalances = len(group.world.rounds)
        group.stopped.clear()
        return group

    # ---- events

    def starts(self, worker: str) -> None:
        """A new member joins the group."""
        self.world.start(worker)
        self._rest()

    def configure(self, tasks: Iterable[str]) -> None:
        self.world.configure(parse(" ".join(tasks)))
        self._rest()

    def finishes(self, worker: str) -> None:
        """It finishes its replay, becomes ready, and attempts to join the group again."""
        self.world.processes[worker].tasks.warm_ups.complete()
        self._rest()

    def claims_to_leave(self, worker: str) -> None:
        self.world.processes[worker].asked.ask(ControlAction.LEAVE_SOON)
        self._rest()

    def dies(self, worker: str) -> None:
        self.world.kill(worker)
        self.world.run(SESSION_MS)
        self._rest()

    def _rest(self) -> None:
        """Wait until the last round has its assignment and no other one follows for a while."""
        rounds = -1
        while len(self.world.rounds) != rounds:
            rounds = len(self.world.rounds)
            self.world.run(NOTHING_FOLLOWS_MS)

    def _look(self) -> bool:
        """Record tasks that stop while their worker lives."""
        running = {task: process.worker for process in self.world.everybody for task in process.running}
        alive = {process.worker for process in self.world.everybody if process.alive}
        self.stopped += [task.job for task, worker in self._running.items() if task not in running and worker in alive]
        self._running = running
        return False

    # ---- rebalances

    def rebalance(self, joined: dict[str, Says] | None, **assigned: Says) -> None:
        """The next rebalance.

        :param joined: the members' metadata; None if the proposal does not have them
        :param assigned: the leader's assignment for each
        """
        before = self.world.rounds[self.rebalances - 1] if self.rebalances else None
        now = self.world.rounds[self.rebalances]
        self.rebalances += 1
        assert now.lessons is not None
        if joined is not None:
            learned = {} if before is None or before.lessons is None else before.lessons.learned
            assert {
                str(worker): Says(
                    shown(owned),
                    shown(learned.get(worker, NO_TASKS) - owned),
                    shown(frozenset(now.lessons.learns[worker])),
                )
                for worker, owned in now.owned.items()
            } == joined
        assert {
            str(worker): Says(assigned=shown(target), learning=shown(now.lessons.learning[worker]))
            for worker, target in now.target.items()
        } == assigned
        assert not now.delay_ms

    def is_in_balance_after(self, rebalances: int) -> None:
        assert len(self.world.rounds) == self.rebalances == rebalances
        assert self.world.settled, self.world.story()
        self.world.check_at_rest()


def parse(tasks: str) -> Tasks:
    return frozenset(TaskId(name, 0) for name in tasks.split())


def shown(tasks: Tasks) -> str:
    return " ".join(sorted(task.job for task in tasks))


def stable_group(rule: LearnedRule) -> Group:
    """Cluster has 3 stream instances S1 (leader), S2, S3, and they each own some tasks 1 ~ 5."""
    group = Group.stable(rule, S1="T1 T2", S2="T3 T4", S3="T5")
    assert group.world.coordinator.leader == "S1"
    return group


class TestScaleUpRunningApplication:
    def test_by_the_rule_at_rebalance(self) -> None:
        group = stable_group(AT_REBALANCE)
        before = group.rebalances
        # First Rebalance: new member S4 joins the group.
        group.starts("S4")
        group.rebalance(
            {"S1": Says("T1 T2"), "S2": Says("T3 T4"), "S3": Says("T5"), "S4": Says()},
            S1=Says("T1 T2"),
            S2=Says("T3 T4"),
            S3=Says("T5"),
            S4=Says(learning="T1"),
        )
        # Second Rebalance: new member S5 joins the group. S4 is not ready yet.
        group.starts("S5")
        group.rebalance(
            {
                "S1": Says("T2", revoked="T1"),  # revoked because it's "being learned"
                "S2": Says("T3 T4"),
                "S3": Says("T5"),
                "S4": Says(learning="T1"),
                "S5": Says(),
            },
            S1=Says("T1 T2"),
            S2=Says("T3 T4"),
            S3=Says("T5"),
            S4=Says(learning="T1"),
            S5=Says(learning="T3"),
        )
        # Third Rebalance: member S4 finishes its replay and becomes ready. S5 is not ready yet.
        group.finishes("S4")
        group.rebalance(
            {
                "S1": Says("T2", revoked="T1"),
                "S2": Says("T4", revoked="T3"),
                "S3": Says("T5"),
                "S4": Says(learning="T1"),
                "S5": Says(learning="T3"),
            },
            S1=Says("T2"),
            S2=Says("T3 T4"),
            S3=Says("T5"),
            S4=Says("T1"),
            S5=Says(learning="T3"),
        )
        # Fourth Rebalance: member S5 is ready.
        group.finishes("S5")
        group.rebalance(
            {
                "S1": Says("T2"),
                "S2": Says("T4", revoked="T3"),
                "S3": Says("T5"),
                "S4": Says("T1"),
                "S5": Says(learning="T3"),
            },
            S1=Says("T2"),
            S2=Says("T4"),
            S3=Says("T5"),
            S4=Says("T1"),
            S5=Says("T3"),
        )
        # Now the group reaches balance with 5 members and 5 tasks.
        group.is_in_balance_after(before + 4)
        assert sorted(group.stopped) == ["T1", "T1", "T3", "T3"], "for the third rebalance, S1 and S2 stop at once"

    def test_by_the_rule_when_ready(self) -> None:
        """The same four rebalances, but learned tasks run until their learner is ready."""
        group = stable_group(WHEN_READY)
        before = group.rebalances
        group.starts("S4")
        group.rebalance(None, S1=Says("T1 T2"), S2=Says("T3 T4"), S3=Says("T5"), S4=Says(learning="T1"))
        group.starts("S5")
        group.rebalance(
            {"S1": Says("T1 T2"), "S2": Says("T3 T4"), "S3": Says("T5"), "S4": Says(learning="T1"), "S5": Says()},
            S1=Says("T1 T2"),
            S2=Says("T3 T4"),
            S3=Says("T5"),
            S4=Says(learning="T1"),
            S5=Says(learning="T3"),
        )
        group.finishes("S4")
        group.rebalance(
            {
                "S1": Says("T2", revoked="T1"),
                "S2": Says("T3 T4"),
                "S3": Says("T5"),
                "S4": Says(learning="T1"),
                "S5": Says(learning="T3"),
            },
            S1=Says("T2"),
            S2=Says("T3 T4"),
            S3=Says("T5"),
            S4=Says("T1"),
            S5=Says(learning="T3"),
        )
        group.finishes("S5")
        group.rebalance(None, S1=Says("T2"), S2=Says("T4"), S3=Says("T5"), S4=Says("T1"), S5=Says("T3"))
        group.is_in_balance_after(before + 4)
        assert group.stopped == ["T1", "T3"]


class TestNormalScaleDown:
    @pytest.mark.parametrize("rule", LearnedRule)
    def test_scaling_down_the_application(self, rule: LearnedRule) -> None:
        """S2 will be leaving. In the proposal S2 keeps T3 in the second rebalance, as it does when it only stops tasks
        for which a learner is ready.
        """
        group = stable_group(rule)
        before = group.rebalances
        # First Rebalance: member S2 joins the group and claims that it is leaving.
        group.claims_to_leave("S2")
        group.rebalance(
            {"S1": Says("T1 T2"), "S2": Says("T3 T4"), "S3": Says("T5")},
            S1=Says("T1 T2", learning="T3"),
            S2=Says("T3 T4"),
            S3=Says("T5", learning="T4"),
        )
        # Second Rebalance: S3 finishes replay first and triggers another rebalance. S1 is not ready yet.
        group.finishes("S3")
        of_s2 = Says("T3", revoked="T4") if rule is WHEN_READY else Says(revoked="T3 T4")
        group.rebalance(
            {"S1": Says("T1 T2", learning="T3"), "S2": of_s2, "S3": Says("T5", learning="T4")},
            S1=Says("T1 T2", learning="T3"),
            S2=Says("T3"),
            S3=Says("T4 T5"),
        )
        # Third Rebalance: S1 finishes replay and triggers rebalance.
        group.finishes("S1")
        group.rebalance(
            {"S1": Says("T1 T2", learning="T3"), "S2": Says(revoked="T3"), "S3": Says("T4 T5")},
            S1=Says("T1 T2 T3"),
            S2=Says(),
            S3=Says("T4 T5"),
        )
        # S2 shuts down itself upon new assignment since there is no assigned task left. Its going moves nothing.
        assert group.world.processes["S2"].state.phase is Phase.LEFT
        group.rebalance({"S1": Says("T1 T2 T3"), "S3": Says("T4 T5")}, S1=Says("T1 T2 T3"), S3=Says("T4 T5"))
        group.is_in_balance_after(before + 4)
        assert sorted(group.stopped) == (["T3", "T4"] if rule is WHEN_READY else ["T3", "T3", "T4"])


class TestScalingUpFromEmptyGroup:
    @pytest.mark.parametrize("rule", LearnedRule)
    def test_the_first_starts_all_and_those_that_follow_learn_their_share(self, rule: LearnedRule) -> None:
        """The proposal leaves this open. Nothing runs yet, so there is no reason to wait."""
        group = Group(rule)
        group.configure(group.tasks)
        group.starts("S1")
        group.rebalance({"S1": Says()}, S1=Says("T1 T2 T3 T4 T5"))
        group.starts("S2")
        group.rebalance(None, S1=Says("T1 T2 T3 T4 T5"), S2=Says(learning="T1 T2"))
        # S3 joins while S2 learns: S2 goes on.
        group.starts("S3")
        group.rebalance(None, S1=Says("T1 T2 T3 T4 T5"), S2=Says(learning="T1 T2"), S3=Says(learning="T3"))
        group.finishes("S2")
        group.finishes("S3")
        while group.rebalances < len(group.world.rounds) - 1:
            group.rebalances += 1  # T1 and T2 may move together, or one after the other
        group.rebalance(None, S1=Says("T4 T5"), S2=Says("T1 T2"), S3=Says("T3"))
        group.is_in_balance_after(group.rebalances)
        assert group.rebalances <= 6


class TestStatefulVsStatelessTasks:
    def test_stateless_tasks_move_in_two_rebalances_and_stateful_ones_when_they_are_learned(self) -> None:
        """Stateless tasks need no restore: they are revoked, and assigned in the second rebalance (KIP-415)."""
        group = Group.stable(WHEN_READY, S1="T1 T2 T3 T4", stateless="T3 T4")
        before = group.rebalances
        group.starts("S2")
        group.rebalance({"S1": Says("T1 T2 T3 T4"), "S2": Says()}, S1=Says("T1 T2 T3"), S2=Says(learning="T1"))
        group.rebalance(
            {"S1": Says("T1 T2 T3"), "S2": Says(learning="T1")}, S1=Says("T1 T2 T3"), S2=Says("T4", learning="T1")
        )
        group.finishes("S2")
        group.rebalance(None, S1=Says("T2 T3"), S2=Says("T1 T4"))
        group.is_in_balance_after(before + 3)
        assert group.stopped == ["T4", "T1"]


# ---- when somebody is lost


def test_a_lost_owner_whose_learner_is_ready_is_replaced_at_once() -> None:
    """Tasks without a ready learner wait for their worker, as always."""
    group = stable_group(WHEN_READY)
    group.claims_to_leave("S2")
    group.world.processes["S3"].tasks.warm_ups.complete()
    group.world.kill("S2")
    group.world.run(SESSION_MS + 2_000)
    now = group.world.rounds[-1]
    assert WorkerId("S2") not in now.owned
    assert shown(now.target[WorkerId("S3")]) == "T4 T5"
    assert shown(now.waiting) == "T3"
    assert group.stopped == []


@pytest.mark.parametrize("rule", LearnedRule)
def test_a_learner_that_dies_costs_nobody_anything(rule: LearnedRule) -> None:
    """Except for what the proposal's rule stops in every rebalance."""
    group = stable_group(rule)
    group.starts("S4")
    group.world.kill("S4")
    group.world.run(SESSION_MS)
    group._rest()
    assert [len(group.world.running(worker)) for worker in ("S1", "S2", "S3")] == [2, 2, 1]
    assert group.stopped == ([] if rule is WHEN_READY else ["T1"])
    assert group.world.settled


def test_half_warm_goes_before_cold() -> None:
    group = stable_group(WHEN_READY)
    group.starts("S4")
    group.world.kill("S1")
    group.world.run_until(lambda: group.world.rounds[-1].delay_ms > 0)
    delay_ms = group.world.rounds[-1].delay_ms
    assert shown(group.world.rounds[-1].waiting) == "T1 T2"
    group.world.run(delay_ms + 2_000)
    assert parse("T1") <= group.world.running("S4")


def test_a_lesson_that_is_not_needed_ends_whatever_a_draining_worker_keeps() -> None:
    """That is in nobody's share. What is new has no state, and only makes a rebalance."""
    group = Group.stable(WHEN_READY, S1="T1 T2 T3", S2="T4 T5 T6", S3="T7 T8")
    group.world.processes["S1"].asked.ask(ControlAction.DRAIN)
    group.configure(["T1", "T2", "T3", "T4", "T5", "T6", "T8", "NEW"])
    group.rebalances = len(group.world.rounds) - 1
    group.rebalance(None, S1=Says("T1 T2 T3"), S2=Says("NEW T4 T5 T6"), S3=Says("T8", learning="T4"))
    group.configure(["T1", "T2", "T3", "T4", "T8", "NEW", "NEWER"])
    group.rebalance(None, S1=Says("T1 T2 T3"), S2=Says("NEW T4"), S3=Says("NEWER T8"))


def test_an_owner_that_has_not_read_of_the_readiness_stops_in_a_round_of_its_own() -> None:
    group = stable_group(WHEN_READY)
    group.starts("S4")
    before = len(group.world.rounds)
    group.world.processes["S1"].reads_jobs = False
    group.world.processes["S1"].status = group.world.status.snapshot()
    group.finishes("S4")
    assert len(group.world.rounds) in (before + 1, before + 2)
    assert group.world.running("S4") == parse("T1")
    assert group.world.settled
