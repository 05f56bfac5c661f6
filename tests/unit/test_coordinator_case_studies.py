"""The proposal's case studies, printed as its tables. Members say what the proposal has them say."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

from coordinated import COOPERATIVE, W1, W2, W3, Shard, named, tasks, whole

from airflow_provider.declarative.units import units_of
from airflow_provider.declarative.wire.install_assignment import InstalledMember
from airflow_provider.protocol.error_codes import KafkaErrorCode as Code
from airflow_provider.protocol.model import MemberId, Tasks
from airflow_provider.reports.declarative_group import tables, waiting_for

ALL = tasks("AC0", "AT1", "AT2", "BC0", "BT1")
OF_A, OF_B = tasks("AC0", "AT1", "AT2"), tasks("BC0", "BT1")


def shows(shard: Shard, expected: str) -> None:
    assert tables(shard.group, named) == dedent(expected).strip()


class TestJoining:
    def test_w1_then_w2(self) -> None:
        shard = Shard()
        shard.read_jobs(ALL)
        shard.join(W1)
        shows(
            shard,
            """
            Group (epoch=1)
              W1
            Target Assignment (epoch=0)
              Empty
            Member Assignment
              W1 - epoch=0, connectorsAndTasks=[]
            """,
        )
        shard.compute(W1, {W1: ALL})
        shows(
            shard,
            """
            Group (epoch=1)
              W1
            Target Assignment (epoch=1)
              W1 - connectorsAndTasks=[AC0, AT1, AT2, BC0, BT1]
            Member Assignment
              W1 - epoch=0, connectorsAndTasks=[]
            """,
        )
        shard.heartbeat(W1, 0)
        shard.join(W2)
        shows(
            shard,
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
        assert shard.heartbeat(W1, 1).error_code == Code.COMPUTE_ASSIGNMENT
        shard.compute(W1, {W1: OF_A, W2: OF_B})
        shard.heartbeat(W1, 1)
        shows(
            shard,
            """
            Group (epoch=2)
              W1
              W2
            Target Assignment (epoch=2)
              W1 - connectorsAndTasks=[AC0, AT1, AT2]
              W2 - connectorsAndTasks=[BC0, BT1]
            Member Assignment
              W1 - epoch=1, connectorsAndTasks=[AC0, AT1, AT2], revoking=[BC0, BT1]
              W2 - epoch=1, connectorsAndTasks=[], waits for [BC0 of W1, BT1 of W1]
            """,
        )
        assert set(waiting_for(shard.group, W2)) == OF_B
        shard.heartbeat(W1, 1, OF_A)
        shard.heartbeat(W2, 1)
        shows(
            shard,
            """
            Group (epoch=2)
              W1
              W2
            Target Assignment (epoch=2)
              W1 - connectorsAndTasks=[AC0, AT1, AT2]
              W2 - connectorsAndTasks=[BC0, BT1]
            Member Assignment
              W1 - epoch=2, connectorsAndTasks=[AC0, AT1, AT2]
              W2 - epoch=2, connectorsAndTasks=[BC0, BT1]
            """,
        )


SHARES: dict[MemberId, Tasks] = {W1: tasks("AC0", "AT1"), W2: tasks("BC0", "BT1"), W3: tasks("AT2")}


def at_35() -> Shard:
    """All three in epoch 35: jobs came and went."""
    shard = Shard()
    for member in (W1, W2, W3):
        shard.join(member)
    for number in range(4, 36):
        shard.read_jobs(ALL if number % 2 else OF_A)
    shard.compute(W1, SHARES)
    for member in (W1, W2, W3):
        shard.heartbeat(member, 0)
    shows(
        shard,
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
    return shard


def w2_is_lost(shard: Shard) -> None:
    """The proposal still lists it in the group at epoch 36, and without it in the next table."""
    shard.sleep(9_000)
    shard.heartbeat(W1, 35, SHARES[W1], **whole())
    shard.heartbeat(W3, 35, SHARES[W3], **whole())
    shard.sleep(1_000)
    shows(
        shard,
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
    assert shard.heartbeat(W1, 35).error_code == Code.COMPUTE_ASSIGNMENT
    shard.prepare(W1, 35)
    waits = (InstalledMember(member_id=W2, connectors_and_tasks=units_of(SHARES[W2])),)
    shares = {W1: SHARES[W1], W3: SHARES[W3]}
    assert shard.install(W1, 35, 36, shares, delayed=waits).error_code == Code.NONE
    shard.heartbeat(W1, 35)
    shard.heartbeat(W3, 35)
    shows(
        shard,
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


class TestLeaving:
    def test_35_36_37(self) -> None:
        """The proposal deals out BC1, which there is not: it is BT1."""
        shard = at_35()
        w2_is_lost(shard)
        shard.heartbeat(W1, 36, client_assignors=(replace(COOPERATIVE, reason=1),))
        shard.compute(W1, {W1: tasks("AC0", "AT1", "BC0"), W3: tasks("AT2", "BT1")})
        shard.heartbeat(W1, 36)
        shard.heartbeat(W3, 36)
        shows(
            shard,
            """
            Group (epoch=37)
              W1
              W3
            Target Assignment (epoch=37)
              W1 - connectorsAndTasks=[AC0, AT1, BC0]
              W3 - connectorsAndTasks=[AT2, BT1]
            Member Assignment
              W1 - epoch=37, connectorsAndTasks=[AC0, AT1, BC0]
              W3 - epoch=37, connectorsAndTasks=[AT2, BT1]
            """,
        )


class TestBouncing:
    def test_w2_is_back_before_the_delay_is_over(self) -> None:
        """With epoch 35 it hears that it is not known, and joins: the proposal's step 2 knows no other way."""
        shard = at_35()
        w2_is_lost(shard)
        assert shard.heartbeat(W2, 35, SHARES[W2], **whole()).error_code == Code.UNKNOWN_MEMBER_ID
        shard.join(W2)
        shard.heartbeat(W1, 36)
        shard.compute(W1, SHARES)
        shard.heartbeat(W1, 36)
        shard.heartbeat(W3, 36)
        shard.heartbeat(W2, 36)
        shows(
            shard,
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


class TestWhatStandsInTheWay:
    def test_one_that_was_removed_may_still_run_something(self) -> None:
        shard = at_35()
        shard.heartbeat(W2, 1)
        assert "  W2 - removed, may still run [BC0, BT1]" in tables(shard.group, named).splitlines()

    def test_an_assignor_has_failed(self) -> None:
        shard = at_35()
        shard.leave(W2)
        shard.heartbeat(W1, 35)
        shard.prepare(W1, 35)
        shard.install(W1, 35, 36, {}, error=3)
        assert "Target Assignment (epoch=36, error=3)" in tables(shard.group)
        assert "[A:planner, A:1]" in tables(shard.group)
