"""What must hold in a coordinator whatever is asked of it, in whatever order: :meth:`coordinated.Shard._check` looks at
it after each event. Here are requests that no member in order would send, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coordinated import COOPERATIVE, GROUP, REBALANCE_MS, Shard, heartbeat, tasks
from how_many import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from airflow_provider.group.declarative.coordinator.settings import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from airflow_provider.group.declarative.protocol.model import GroupEpoch, MemberEpoch
from airflow_provider.group.declarative.protocol.units import units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
    InstalledMember,
)
from airflow_provider.values.model import MemberId, Tasks

pytestmark = pytest.mark.slow

MEMBERS = tuple(map(MemberId, ("a", "b", "c", "b'")))
ALL = tuple(sorted(tasks("AC0", "AT1", "AT2", "BC0", "BT1")))
INSTANCES = {MemberId("b"): "static", MemberId("b'"): "static"}

any_member = st.sampled_from(MEMBERS)
any_tasks = st.frozensets(st.sampled_from(ALL))


class Asked(RuleBasedStateMachine):
    """Anything is asked."""

    @initialize()
    def begin(self) -> None:
        self.shard = Shard()
        self.shard.read_jobs(frozenset(ALL))
        for member in MEMBERS[:3]:
            self.join(member, instance=True)

    def epoch(self, member: MemberId, off: int) -> int:
        current = self.shard.group.current.get(member)
        return max(-2, (current.epoch if current else 0) + off)

    def ask(self, body: Any) -> None:
        self.shard.ask(body)

    @rule(member=any_member, instance=st.booleans())
    def join(self, member: MemberId, instance: bool) -> None:
        more = {"instance_id": INSTANCES[member]} if instance and member in INSTANCES else {}
        self.ask(heartbeat(member, 0, (), rebalance_timeout_ms=REBALANCE_MS, client_assignors=(COOPERATIVE,), **more))

    @rule(
        member=any_member,
        off=st.sampled_from((0, 0, 0, -1, 1)),
        owned=st.none() | any_tasks | st.just("assigned"),
        whole=st.booleans(),
        version=st.integers(0, 2),
    )
    def heartbeat(self, member: MemberId, off: int, owned: Any, whole: bool, version: int) -> None:
        more: dict[str, Any] = {}
        if whole:
            more = {
                "rebalance_timeout_ms": REBALANCE_MS,
                "client_assignors": (replace(COOPERATIVE, version=version),),
                "instance_id": INSTANCES.get(member),
            }
        if owned == "assigned":
            current = self.shard.group.current.get(member)
            owned = current.assigned if current is not None else ()
        self.ask(heartbeat(member, self.epoch(member, off), owned, **more))

    @rule(member=any_member, back=st.booleans())
    def leave(self, member: MemberId, back: bool) -> None:
        instance = INSTANCES.get(member)
        self.ask(heartbeat(member, -2 if back and instance else -1, instance_id=instance))

    @rule(member=any_member)
    def prepare(self, member: MemberId) -> None:
        epoch = MemberEpoch(max(0, self.epoch(member, 0)))
        self.ask(ConnectGroupPrepareAssignmentRequest(group_id=GROUP, member_id=member, member_epoch=epoch))

    @rule(member=any_member, stopped=st.booleans())
    def follow(self, member: MemberId, stopped: bool) -> None:
        """What a member in order would say: that it owns what it was sent."""
        current = self.shard.group.current.get(member)
        if current is not None:
            owned = current.assigned if stopped else current.held
            self.ask(heartbeat(member, current.epoch, owned))

    @rule(data=st.data(), fits=st.sampled_from((True, True, True, False)))
    def install(self, data: st.DataObject, fits: bool) -> None:
        """By who is chosen, if somebody is."""
        group = self.shard.group
        member = data.draw(any_member)
        prepared = None
        for one in group.members:
            epoch = group.current[one].epoch
            if epoch >= 0:
                prepared = self.shard.prepare(one, epoch)
                if not prepared.error_code:
                    member = one
                    break
        shares: dict[MemberId, set[Any]] = {one: set() for one in group.members}
        for task in sorted(group.configured if fits else ALL):
            if shares:
                shares[data.draw(st.sampled_from(sorted(shares)))].add(task)
        self.ask(
            ConnectGroupInstallAssignmentRequest(
                group_id=GROUP,
                member_id=member,
                member_epoch=MemberEpoch(max(0, self.epoch(member, 0))),
                group_epoch=prepared.group_epoch if prepared else GroupEpoch(1),
                members=tuple(
                    InstalledMember(member_id=one, connectors_and_tasks=units_of(frozenset(share)))
                    for one, share in shares.items()
                ),
            )
        )

    @rule(configured=any_tasks)
    def read_jobs(self, configured: Tasks) -> None:
        self.shard.read_jobs(configured)

    @rule(ms=st.sampled_from((0, 100, 3_000, 9_000, 30_000)))
    def sleep(self, ms: int) -> None:
        self.shard.sleep(ms)

    @rule(session=st.sampled_from((None, 1, 1_000, 5_000, 20_000)), interval=st.sampled_from((None, 100, 5_000)))
    def configure(self, session: int | None, interval: int | None) -> None:
        self.shard.alter({SESSION_TIMEOUT: session, HEARTBEAT_INTERVAL: interval})

    @rule(kept=st.frozensets(st.integers(0, 40)))
    def fail_over(self, kept: frozenset[int]) -> None:
        """The answers to what is held are lost with the coordinator."""
        self.shard.fail_over(kept)

    def teardown(self) -> None:
        """All heartbeats that were held are answered in the end."""
        self.shard.sleep(30_000)


TestAsked = Asked.TestCase
TestAsked.settings = settings(deadline=None, max_examples=examples(20), stateful_step_count=40)
