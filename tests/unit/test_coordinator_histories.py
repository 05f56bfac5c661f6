"""The coordinator and members as they are, in virtual time, over a network that loses, delays and doubles: what must
never happen, does not; and when it gets better, everybody comes to have its target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from coordinated import Shard
from declarative_group import Held, TinyGroup
from declarative_script import tasks
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider.coordinator.events import RequestArrived, RequestId, TimerFired
from airflow_provider.declarative.units import tasks_of, units_of
from airflow_provider.declarative.wire.apis import ReplyBody
from airflow_provider.declarative.wire.heartbeat import ConnectGroupHeartbeatRequest, ConnectGroupHeartbeatResponse
from airflow_provider.declarative.wire.install_assignment import (
    ConnectGroupInstallAssignmentResponse,
    InstalledMember,
)
from airflow_provider.declarative_membership.events import (
    AssignmentComputed,
    Command,
    ComputeAssignment,
    Event,
    HeartbeatAnswered,
    InstallAnswered,
    LeaveRequested,
    PrepareAnswered,
    RequestFailed,
    SendRequest,
)
from airflow_provider.declarative_membership.state import MembershipState, Phase
from airflow_provider.protocol.error_codes import KafkaErrorCode
from airflow_provider.protocol.model import NO_TASKS, MemberId, TaskId, Tasks

M0, M1, M2 = map(MemberId, ("m0", "m1", "m2"))
ALL = sorted(tasks("a0 a1 a2 b0 b1 b2"))
Fate = tuple[int, tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on its way.

    :param answers_after: how long each copy of its reply takes
    """

    name: MemberId
    sent: SendRequest
    at_ms: int
    answers_after: tuple[int, ...]


class CoordinatedGroup(TinyGroup):
    """Members with the coordinator. Who is chosen deals the tasks out in turn, beginning with another one each time."""

    def __init__(self, members: int, fates: list[Fate]) -> None:
        self.shard = Shard()
        self._asked: dict[int, Asked] = {}
        super().__init__(members, fates)

    def at_the_shard(self, do: Callable[[Shard], object]) -> None:
        """Let something happen at the coordinator, and send out what it answers."""
        self.shard.now = self.now
        do(self.shard)
        for number in list(self.shard.answers):
            asked, reply = self._asked.pop(number, None), self.shard.answers.pop(number)
            for after_ms in asked.answers_after if asked is not None else ():
                assert asked is not None
                self.later(after_ms, partial(self._tell, asked, reply))
        if (at_ms := self.shard.timer_at) is not None:
            self.later(max(0, at_ms - self.now), lambda: self._tick(at_ms))

    def fail_over(self) -> None:
        """What the old one has not answered, it never will."""
        self._asked.clear()
        self.at_the_shard(Shard.fail_over)

    def _tick(self, at_ms: int) -> None:
        if self.shard.timer_at == at_ms:
            self.at_the_shard(lambda shard: shard.handle(TimerFired(now_ms=self.now)))

    def _carry_out(self, name: MemberId, command: Command) -> None:
        match command:
            case SendRequest():
                if isinstance(command.body, ConnectGroupHeartbeatRequest):
                    self._check_sent(self.members[name], command.body)
                self._post(name, command)
            case ComputeAssignment():
                self.later(1, lambda: self.feed(name, self._computed(command)))
            case _:
                super()._carry_out(name, command)

    def _post(self, name: MemberId, sent: SendRequest) -> None:
        number = next(self._sent)
        fate = self.fates[number] if number < len(self.fates) else (1, (1,))
        if fate is not None:
            asked = Asked(name, sent, self.now, fate[1])
            self.later(fate[0], lambda: self._arrive(number, asked))
        self.later(sent.timeout_ms, lambda: self._give_up(name, sent))

    def _arrive(self, number: int, asked: Asked) -> None:
        self._asked[number] = asked
        body = asked.sent.body
        self.at_the_shard(
            lambda shard: shard.handle(RequestArrived(now_ms=self.now, request=RequestId(number), body=body))
        )  # fmt: skip

    def _give_up(self, name: MemberId, sent: SendRequest) -> None:
        self.feed(name, RequestFailed(now_ms=self.now, seq=sent.seq, request=sent.request, cause="no reply"))

    def _tell(self, asked: Asked, reply: ReplyBody) -> None:
        now, seq, sent_at = self.now, asked.sent.seq, asked.at_ms
        if isinstance(reply, ConnectGroupHeartbeatResponse):
            self.feed(asked.name, HeartbeatAnswered(now_ms=now, seq=seq, sent_at_ms=sent_at, reply=reply))
        elif isinstance(reply, ConnectGroupInstallAssignmentResponse):
            self.feed(asked.name, InstallAnswered(now_ms=now, seq=seq, sent_at_ms=sent_at, reply=reply))
        else:
            self.feed(asked.name, PrepareAnswered(now_ms=now, seq=seq, sent_at_ms=sent_at, reply=reply))

    def _computed(self, asked: ComputeAssignment) -> AssignmentComputed:
        prepared = asked.prepared
        shares: dict[MemberId, set[TaskId]] = {one.member_id: set() for one in prepared.members}
        for number, task in enumerate(sorted(tasks_of(prepared.connectors_tasks)), prepared.group_epoch):
            shares[sorted(shares)[number % len(shares)]].add(task)
        return AssignmentComputed(
            now_ms=self.now,
            seq=asked.seq,
            group_epoch=prepared.group_epoch,
            members=tuple(
                InstalledMember(member_id=one, connectors_and_tasks=units_of(frozenset(share)))
                for one, share in shares.items()
            ),
        )

    def _note_epoch(self, one: Held, before: MembershipState, event: Event) -> None:
        super()._note_epoch(one, before, event)
        chosen = isinstance(event, HeartbeatAnswered) and event.reply.error_code == KafkaErrorCode.COMPUTE_ASSIGNMENT
        if isinstance(event, HeartbeatAnswered) and chosen and event.seq == before.awaiting:
            one.told_epoch = event.reply.member_epoch

    @property
    def is_settled(self) -> bool:
        group = self.shard.group
        return int(group.epoch) == group.target.epoch and all(
            group.current[one].is_at(group.target.epoch) for one in group.members
        )  # fmt: skip


FATE = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 6_000), st.lists(st.integers(0, 9_000), min_size=0, max_size=2).map(tuple)),
    st.just((1, (1,))),
    st.just((1, (1,))),
)
Step = Callable[[CoordinatedGroup], object]


def _jobs(configured: Tasks) -> Step:
    return lambda group: group.at_the_shard(lambda shard: shard.read_jobs(configured))


def _sessions(ms: int) -> Step:
    return lambda group: group.at_the_shard(lambda shard: shard.configure(session_timeout_ms=ms))


STEP: st.SearchStrategy[Step] = st.one_of(
    st.frozensets(st.sampled_from(ALL)).map(_jobs),
    st.sampled_from([8_000, 10_000, 20_000]).map(_sessions),
    st.integers(1, 12_000).map(lambda ms: lambda group: group.run(ms)),
    st.just(CoordinatedGroup.fail_over),
    st.sampled_from([M0, M1, M2]).map(lambda name: lambda group: group.hand_over(name)),
    st.sampled_from([5, 5_000]).map(lambda ms: lambda group: setattr(group, "stop_ms", ms)),
)


@settings(max_examples=25, deadline=None)
@given(fates=st.lists(FATE, max_size=60), steps=st.lists(STEP, max_size=15), leaves=st.booleans())
def test_whatever_happens_nothing_runs_twice_or_without_a_lease_and_all_converge(
    fates: list[Fate], steps: list[Step], *, leaves: bool
) -> None:
    group = CoordinatedGroup(3, fates)
    _jobs(frozenset(ALL))(group)
    for step in steps:
        step(group)
        group.check()
    if leaves:
        group.feed(M2, LeaveRequested(now_ms=group.now, reason="a test"))
    group.fates = []
    group.stop_ms = 5
    group.run(30_000)
    _jobs(frozenset(ALL))(group)
    group.run(90_000)
    assert group.is_settled
    assert (group.members[M2].state.phase is Phase.LEFT) == leaves
    stay = [M0, M1] if leaves else [M0, M1, M2]
    assert {one: group.members[one].runs for one in stay} == {
        one: group.shard.group.target.of(one).tasks for one in stay
    }  # fmt: skip
    assert NO_TASKS.union(*(group.members[one].runs for one in stay)) == frozenset(ALL)


def test_nothing_is_lost_and_it_takes_less_than_an_interval() -> None:
    """Everybody joins, it is computed, tasks are stopped and started: each time it is pushed, not asked for."""
    group = CoordinatedGroup(3, [])
    _jobs(frozenset(ALL))(group)
    group.run(200)
    assert group.is_settled
    assert NO_TASKS.union(*(one.runs for one in group.members.values())) == frozenset(ALL)
