"""The case studies of "Connect on KIP-848", epoch by epoch, through coordinator, assignor and members.

The tables contradict themselves, and are read by their sense: W2 is listed as a member of epoch 36, and after
it has what W3 has (it is gone: W3 is meant); BC1 is BT1; W2 has epoch 0 when it joins, and epoch 1 in the next table
though nothing of it has changed (it reaches epoch 1, in which it has nothing, as it joins); the group is at 36 when
W2 is back, and by the text at 37. Which tasks a member has differs where ours are spread by job. How many does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from textwrap import dedent

from coordinated import GROUP, Shard, assigned, named, tasks

from airflow_provider.client_assignors import CooperativeAssignor
from airflow_provider.client_assignors.client_assignor import WorkerFacts
from airflow_provider.declarative.model import MemberEpoch
from airflow_provider.declarative.units import units_of
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatResponse
from airflow_provider.declarative.wire.install_assignment import (
    ConnectGroupInstallAssignmentRequest,
    InstalledMember,
)
from airflow_provider.declarative_membership.computing import described, group_of, installed, target_of
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.model import NO_TASKS, MemberId, Tasks
from airflow_provider.reports.declarative_group import tables

DELAY_MS = 300_000
SESSION_MS = 10_000
ASSIGNOR = CooperativeAssignor()
ALL = tasks("AC0", "AT1", "AT2", "BC0", "BT1")


@dataclass
class Worker:
    """A member that does what the proposal says, and nothing by itself.

    :ivar owned: what it runs
    :ivar asks_at_ms: when it is to ask for the next assignment
    """

    member_id: MemberId
    shard: Shard
    epoch: int = 0
    owned: Tasks = NO_TASKS
    facts: WorkerFacts = field(default_factory=WorkerFacts)
    asks_at_ms: int | None = None

    def heartbeat(self) -> ConnectGroupHeartbeatResponse:
        """One, and what its answer asks for: to stop and to start, but not yet to compute."""
        if self.asks_at_ms is not None and self.asks_at_ms <= self.shard.now:
            self.facts = replace(self.facts, delay_over_ms=self.asks_at_ms)
            self.asks_at_ms = None
        reply = self.shard.heartbeat(
            self.member_id,
            self.epoch,
            self.owned,
            rebalance_timeout_ms=60_000,
            client_assignors=described((ASSIGNOR,), self.facts),
        )
        assert reply.error_code in (0, KafkaErrorCode.COMPUTE_ASSIGNMENT), reply
        self.epoch = reply.member_epoch
        to_have = assigned(reply)
        if reply.assignment is not None and to_have is not None:
            assert to_have <= self.owned or self.owned <= to_have, "never both in one answer"
            self.owned = to_have
            self.asks_at_ms = ASSIGNOR.on_assignment(target_of(reply.assignment))
        return reply

    def compute(self) -> None:
        reply = self.shard.prepare(self.member_id, self.epoch)
        assert reply.error_code == 0, reply
        group = group_of(reply, computing=self.member_id, now_ms=self.shard.now, revocation_rank={})
        made = ASSIGNOR.assign(group)
        request = ConnectGroupInstallAssignmentRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=MemberEpoch(self.epoch),
            group_epoch=reply.group_epoch,
            members=installed(made.members),
            delayed=installed(made.delayed),
        )
        answer = self.shard.answer(request)
        assert answer.error_code == 0, answer


class Story:
    """A group, told step by step: each step prints the tables and checks them."""

    def __init__(self) -> None:
        self.shard = Shard(now=1_700_000_000_000)
        self.workers: dict[str, Worker] = {}
        self.shard.read_jobs(ALL)

    def joins(self, name: str) -> Worker:
        self.workers[name] = Worker(MemberId(name), self.shard)
        self.workers[name].heartbeat()
        return self.workers[name]

    def beat(self) -> None:
        for worker in self.workers.values():
            worker.heartbeat()

    def is_silent(self, name: str) -> None:
        """Until its session is over, while the others go on."""
        del self.workers[name]
        while MemberId(name) in self.shard.group.members:
            self.shard.sleep(SESSION_MS // 4)
            for worker in self.workers.values():
                if worker.heartbeat().error_code:
                    return

    def pass_time(self, ms: int) -> None:
        """With heartbeats in time."""
        until = self.shard.now + ms
        while self.shard.now < until:
            self.shard.sleep(min(SESSION_MS // 2, until - self.shard.now))
            self.beat()

    def so(self, title: str, expected: str) -> None:
        shown = tables(self.shard.group, named)
        print(f"{title}\n{shown}\n")
        assert shown == dedent(expected).strip()


def at_35() -> Story:
    """The state from which two of the studies begin. W3 has computed last, so it does so again."""
    story = Story()
    shares = {"W3": tasks("AT2"), "W1": tasks("AC0", "AT1"), "W2": tasks("BC0", "BT1")}
    last = [story.joins(name) for name in shares][-1]
    for epoch in range(3, 35):  # somebody has said something new that often
        last.facts = replace(last.facts, slots=epoch)
        last.heartbeat()
    w3 = story.workers["W3"]
    members = tuple(
        InstalledMember(member_id=MemberId(name), connectors_and_tasks=units_of(has)) for name, has in shares.items()
    )
    prepared = story.shard.prepare(w3.member_id, 0)
    assert story.shard.install(w3.member_id, 0, prepared.group_epoch, {}, members=members).error_code == 0
    story.beat()
    return story


def test_w1_joins_and_w2_joins() -> None:
    story = Story()
    assert not story.shard.coordinator.groups, "an empty group is none that has records"
    w1 = story.joins("W1")
    story.so(
        "W1 joins",
        """
        Group (epoch=1)
          W1
        Target Assignment (epoch=0)
          Empty
        Member Assignment
          W1 - epoch=0, connectorsAndTasks=[]
        """,
    )
    w1.compute()
    story.so(
        "W1 has computed",
        """
        Group (epoch=1)
          W1
        Target Assignment (epoch=1)
          W1 - connectorsAndTasks=[AC0, AT1, AT2, BC0, BT1]
        Member Assignment
          W1 - epoch=0, connectorsAndTasks=[]
        """,
    )
    w1.heartbeat()
    story.so(
        "W1 has its target",
        """
        Group (epoch=1)
          W1
        Target Assignment (epoch=1)
          W1 - connectorsAndTasks=[AC0, AT1, AT2, BC0, BT1]
        Member Assignment
          W1 - epoch=1, connectorsAndTasks=[AC0, AT1, AT2, BC0, BT1]
        """,
    )
    w2 = story.joins("W2")
    story.so(
        "W2 joins, and has reached the target of epoch 1, in which it has nothing",
        """
        Group (epoch=2)
          W1
          W2
        Target Assignment (epoch=1)
          W1 - connectorsAndTasks=[AC0, AT1, AT2, BC0, BT1]
        Member Assignment
          W1 - epoch=1, connectorsAndTasks=[AC0, AT1, AT2, BC0, BT1]
          W2 - epoch=1, connectorsAndTasks=[]
        """,
    )
    assert w1.heartbeat().error_code == KafkaErrorCode.COMPUTE_ASSIGNMENT
    w1.compute()
    w2.heartbeat()
    story.so(
        "W1 has computed, and W2 waits for what W1 has",
        """
        Group (epoch=2)
          W1
          W2
        Target Assignment (epoch=2)
          W1 - connectorsAndTasks=[AC0, AT1, BT1]
          W2 - connectorsAndTasks=[AT2, BC0]
        Member Assignment
          W1 - epoch=1, connectorsAndTasks=[AC0, AT1, AT2, BC0, BT1]
          W2 - epoch=1, connectorsAndTasks=[], waits for [AT2 of W1, BC0 of W1]
        """,
    )
    w1.heartbeat()
    story.so(
        "W1 has been asked to revoke",
        """
        Group (epoch=2)
          W1
          W2
        Target Assignment (epoch=2)
          W1 - connectorsAndTasks=[AC0, AT1, BT1]
          W2 - connectorsAndTasks=[AT2, BC0]
        Member Assignment
          W1 - epoch=1, connectorsAndTasks=[AC0, AT1, BT1], revoking=[AT2, BC0]
          W2 - epoch=1, connectorsAndTasks=[], waits for [AT2 of W1, BC0 of W1]
        """,
    )
    w1.heartbeat()
    story.so(
        "W1 has acknowledged it",
        """
        Group (epoch=2)
          W1
          W2
        Target Assignment (epoch=2)
          W1 - connectorsAndTasks=[AC0, AT1, BT1]
          W2 - connectorsAndTasks=[AT2, BC0]
        Member Assignment
          W1 - epoch=2, connectorsAndTasks=[AC0, AT1, BT1]
          W2 - epoch=1, connectorsAndTasks=[]
        """,
    )
    w2.heartbeat()
    story.so(
        "W2 has its target",
        """
        Group (epoch=2)
          W1
          W2
        Target Assignment (epoch=2)
          W1 - connectorsAndTasks=[AC0, AT1, BT1]
          W2 - connectorsAndTasks=[AT2, BC0]
        Member Assignment
          W1 - epoch=2, connectorsAndTasks=[AC0, AT1, BT1]
          W2 - epoch=2, connectorsAndTasks=[AT2, BC0]
        """,
    )


def test_a_worker_leaves() -> None:
    story = at_35()
    story.so(
        "at first",
        """
        Group (epoch=35)
          W1
          W2
          W3
        Target Assignment (epoch=35)
          W1 - connectorsAndTasks=[AC0, AT1]
          W2 - connectorsAndTasks=[BC0, BT1]
          W3 - connectorsAndTasks=[AT2]
        Member Assignment
          W1 - epoch=35, connectorsAndTasks=[AC0, AT1]
          W2 - epoch=35, connectorsAndTasks=[BC0, BT1]
          W3 - epoch=35, connectorsAndTasks=[AT2]
        """,
    )
    story.is_silent("W2")
    story.so(
        "the session of W2 has ended",
        """
        Group (epoch=36)
          W1
          W3
        Target Assignment (epoch=35)
          W1 - connectorsAndTasks=[AC0, AT1]
          W2 - connectorsAndTasks=[BC0, BT1]
          W3 - connectorsAndTasks=[AT2]
        Member Assignment
          W1 - epoch=35, connectorsAndTasks=[AC0, AT1]
          W3 - epoch=35, connectorsAndTasks=[AT2]
        """,
    )
    w1, w3 = story.workers["W1"], story.workers["W3"]
    w3.compute()
    story.so(
        "W3 has computed, and has changed nothing",
        """
        Group (epoch=36)
          W1
          W3
        Target Assignment (epoch=36)
          W1 - connectorsAndTasks=[AC0, AT1]
          W3 - connectorsAndTasks=[AT2]
          delayed for W2 - connectorsAndTasks=[BC0, BT1]
        Member Assignment
          W1 - epoch=35, connectorsAndTasks=[AC0, AT1]
          W3 - epoch=35, connectorsAndTasks=[AT2]
        """,
    )
    story.beat()
    story.so(
        "all have reached epoch 36",
        """
        Group (epoch=36)
          W1
          W3
        Target Assignment (epoch=36)
          W1 - connectorsAndTasks=[AC0, AT1]
          W3 - connectorsAndTasks=[AT2]
          delayed for W2 - connectorsAndTasks=[BC0, BT1]
        Member Assignment
          W1 - epoch=36, connectorsAndTasks=[AC0, AT1]
          W3 - epoch=36, connectorsAndTasks=[AT2]
        """,
    )
    assert (w1.asks_at_ms, w3.asks_at_ms) == (None, story.shard.now + DELAY_MS)
    story.pass_time(DELAY_MS - 1)
    assert story.shard.group.epoch == 36
    story.pass_time(1)
    story.so(
        "the delay is over: W3 asks for another assignment, by its reason",
        """
        Group (epoch=37)
          W1
          W3
        Target Assignment (epoch=36)
          W1 - connectorsAndTasks=[AC0, AT1]
          W3 - connectorsAndTasks=[AT2]
          delayed for W2 - connectorsAndTasks=[BC0, BT1]
        Member Assignment
          W1 - epoch=36, connectorsAndTasks=[AC0, AT1]
          W3 - epoch=36, connectorsAndTasks=[AT2]
        """,
    )
    w3.compute()
    story.so(
        "W3 has computed",
        """
        Group (epoch=37)
          W1
          W3
        Target Assignment (epoch=37)
          W1 - connectorsAndTasks=[AC0, AT1, BT1]
          W3 - connectorsAndTasks=[AT2, BC0]
        Member Assignment
          W1 - epoch=36, connectorsAndTasks=[AC0, AT1]
          W3 - epoch=36, connectorsAndTasks=[AT2]
        """,
    )
    story.beat()
    story.so(
        "all have reached epoch 37",
        """
        Group (epoch=37)
          W1
          W3
        Target Assignment (epoch=37)
          W1 - connectorsAndTasks=[AC0, AT1, BT1]
          W3 - connectorsAndTasks=[AT2, BC0]
        Member Assignment
          W1 - epoch=37, connectorsAndTasks=[AC0, AT1, BT1]
          W3 - epoch=37, connectorsAndTasks=[AT2, BC0]
        """,
    )
    story.pass_time(DELAY_MS)
    assert story.shard.group.epoch == 37, "what was said once is not said again"


def test_a_worker_bounces() -> None:
    story = at_35()
    w2 = story.workers["W2"]
    story.is_silent("W2")
    story.workers["W3"].compute()
    story.beat()
    story.so(
        "all wait for W2",
        """
        Group (epoch=36)
          W1
          W3
        Target Assignment (epoch=36)
          W1 - connectorsAndTasks=[AC0, AT1]
          W3 - connectorsAndTasks=[AT2]
          delayed for W2 - connectorsAndTasks=[BC0, BT1]
        Member Assignment
          W1 - epoch=36, connectorsAndTasks=[AC0, AT1]
          W3 - epoch=36, connectorsAndTasks=[AT2]
        """,
    )
    story.pass_time(DELAY_MS // 3)
    with_its_last_epoch = story.shard.heartbeat(w2.member_id, 35, ())
    assert with_its_last_epoch.error_code == KafkaErrorCode.UNKNOWN_MEMBER_ID, "then it joins with epoch 0"
    story.joins("W2")
    story.so(
        "W2 is back",
        """
        Group (epoch=37)
          W1
          W2
          W3
        Target Assignment (epoch=36)
          W1 - connectorsAndTasks=[AC0, AT1]
          W3 - connectorsAndTasks=[AT2]
          delayed for W2 - connectorsAndTasks=[BC0, BT1]
        Member Assignment
          W1 - epoch=36, connectorsAndTasks=[AC0, AT1]
          W2 - epoch=36, connectorsAndTasks=[]
          W3 - epoch=36, connectorsAndTasks=[AT2]
        """,
    )
    assert story.workers["W3"].heartbeat().error_code == KafkaErrorCode.COMPUTE_ASSIGNMENT
    story.workers["W3"].compute()
    story.beat()
    story.so(
        "all have what they had",
        """
        Group (epoch=37)
          W1
          W2
          W3
        Target Assignment (epoch=37)
          W1 - connectorsAndTasks=[AC0, AT1]
          W2 - connectorsAndTasks=[BC0, BT1]
          W3 - connectorsAndTasks=[AT2]
        Member Assignment
          W1 - epoch=37, connectorsAndTasks=[AC0, AT1]
          W2 - epoch=37, connectorsAndTasks=[BC0, BT1]
          W3 - epoch=37, connectorsAndTasks=[AT2]
        """,
    )
    story.pass_time(DELAY_MS)
    assert story.shard.group.epoch == 37, "nobody waits any more"
