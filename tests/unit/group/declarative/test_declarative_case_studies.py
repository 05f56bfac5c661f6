"""The case studies of "Connect on KIP-848", table by table: coordinator, assignor and members as they are.

The tables contradict themselves, and are read by their sense: W2 is listed as a member of epoch 36, and after
it has what W3 has (it is gone: W3 is meant); BC1 is BT1; W2 has epoch 0 when it joins, and epoch 1 in the next table
though nothing of it has changed (it reaches epoch 1, in which it has nothing, as it joins); the group is at 36 when
W2 is back, and by the text at 37. Which tasks a member has differs where ours are spread by job. How many does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from textwrap import dedent

from coordinated import GROUP, W1, W2, W3, Shard, named, tasks
from coordinated_group import CooperativeGroup

from airflow_provider.group.declarative.member.events import AssignmentComputed, ComputeAssignment
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import InstalledMember
from airflow_provider.group.declarative.report import tables
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import MemberId, Tasks

DELAY_MS = 300_000
SESSION_MS = 10_000
ALL = tasks("AC0", "AT1", "AT2", "BC0", "BT1")
AT_35: Mapping[MemberId, Tasks] = {W3: tasks("AT2"), W1: tasks("AC0", "AT1"), W2: tasks("BC0", "BT1")}


class Story(CooperativeGroup):
    """A group whose tables are kept, each that differs from the one before.

    :ivar deals: what is installed as long as it is not empty, whatever the assignor would
    :ivar error: with which the assignor fails; 0: it does not
    """

    def __init__(self) -> None:
        super().__init__(max_delay_ms=DELAY_MS)
        self.deals: Mapping[MemberId, Tasks] = {}
        self.error = 0
        self._shown = ""
        self._tables: deque[tuple[int, str]] = deque()
        self.at_the_shard(lambda shard: shard.read_jobs(ALL))

    @property
    def epoch(self) -> int:
        return self.shard.group.epoch

    def at_the_shard(self, do: Callable[[Shard], object]) -> None:
        super().at_the_shard(do)
        group = self.shard.coordinator.groups.get(GROUP)
        shown = "" if group is None else tables(group, named)
        if shown != self._shown:
            self._shown = shown
            self._tables.append((self.now, shown))

    def forget(self) -> None:
        """Go on from here."""
        self._tables = deque([(self.now, self._shown)])

    def so(self, title: str, expected: str) -> int:
        """The next table.

        :returns: since when
        """
        at, shown = self._tables.popleft()
        print(f"{title}\n{shown}\n")
        assert shown == dedent(expected).strip()
        return at

    def that_is_all(self) -> None:
        """Nothing has changed since the last one."""
        assert not self._tables

    def _computed(self, name: MemberId, asked: ComputeAssignment) -> AssignmentComputed:
        computed = super()._computed(name, asked)
        if self.error:
            return replace(computed, error=self.error, members=(), delayed=())
        if not self.deals:
            return computed
        members = tuple(
            InstalledMember(member_id=one.member_id, connectors_and_tasks=units_of(self.deals[one.member_id]))
            for one in computed.members
        )
        return replace(computed, members=members)


def at_35() -> Story:
    """The state from which two of the studies begin. W3 has computed last, so it does so again."""
    story = Story()
    for name in AT_35:
        story.joins(name)
    story.run(1_000)
    story.deals = AT_35
    while story.epoch < 35:  # somebody has said something new that often
        story.says(W3, replace(story.facts[W3], slots=story.epoch))
        story.run(100)
    story.deals = {}
    story.takes_ms = {W3: 20}  # it computes in less
    story.run(5_000)
    story.forget()
    return story


def test_w1_joins_and_w2_joins() -> None:
    story = Story()
    assert not story.shard.coordinator.groups, "an empty group is none that has records"
    story.takes_ms = {W1: 20, W2: 500}
    story.joins(W1)
    story.run(SESSION_MS)
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
    story.joins(W2)
    story.run(SESSION_MS)
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
    story.that_is_all()


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
    story.is_killed(W2)
    story.run(2 * SESSION_MS)
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
    computed_at = story.so(
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
          W1 - epoch=36, connectorsAndTasks=[AC0, AT1]
          W3 - epoch=35, connectorsAndTasks=[AT2]
        """,
    )
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
    asks_at = story.members[W3].state.delay_over_at
    assert story.members[W1].state.delay_over_at is None
    assert asks_at == computed_at - 1 + DELAY_MS, "it had computed a millisecond before the coordinator had it"
    story.run(asks_at - 1 - story.now)
    story.that_is_all()
    story.run(SESSION_MS)
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
    story.so(
        "W3 has computed, and W1 has its share",
        """
        Group (epoch=37)
          W1
          W3
        Target Assignment (epoch=37)
          W1 - connectorsAndTasks=[AC0, AT1, BT1]
          W3 - connectorsAndTasks=[AT2, BC0]
        Member Assignment
          W1 - epoch=37, connectorsAndTasks=[AC0, AT1, BT1]
          W3 - epoch=36, connectorsAndTasks=[AT2]
        """,
    )
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
    story.run(2 * DELAY_MS)
    story.that_is_all()  # what was said once is not said again


def test_a_worker_bounces() -> None:
    story = at_35()
    story.is_killed(W2)
    story.run(DELAY_MS // 3)
    story.forget()
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
    with_its_last_epoch: list[int] = []
    story.at_the_shard(lambda shard: with_its_last_epoch.append(shard.heartbeat(W2, 35, ()).error_code))
    assert with_its_last_epoch == [KafkaErrorCode.UNKNOWN_MEMBER_ID], "then it joins with epoch 0"
    story.joins(W2)
    story.run(SESSION_MS)
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
    story.so(
        "W3 has computed; W1 and W2 have what they had",
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
          W3 - epoch=36, connectorsAndTasks=[AT2]
        """,
    )
    story.so(
        "W3 has, too",
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
    story.run(2 * DELAY_MS)
    story.that_is_all()  # nobody waits any more


def test_who_was_removed_and_may_still_run_something_is_shown() -> None:
    story = at_35()
    story.is_killed(W2)
    story.at_the_shard(lambda shard: shard.heartbeat(W2, 1))
    assert "  W2 - removed, may still run [BC0, BT1]" in tables(story.shard.group, named).splitlines()


def test_so_is_that_an_assignor_has_failed() -> None:
    story = at_35()
    story.error = 3
    story.leaves(W2)
    story.run(1_000)
    shown = tables(story.shard.group)
    assert "Target Assignment (epoch=36, error=3)" in shown
    assert "[A:planner, A:1]" in shown
