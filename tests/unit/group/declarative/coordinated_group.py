"""Members of a declarative group with their coordinator, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from coordinated import Shard
from declarative_group import Held, TinyGroup

from airflow_provider.assignment.model import LeaveReason
from airflow_provider.assignment.policy import Deferred
from airflow_provider.group.declarative.assignors import CooperativeAssignor
from airflow_provider.group.declarative.assignors.client_assignor import WorkerFacts
from airflow_provider.group.declarative.coordinator.events import RequestArrived, RequestId, TimerFired
from airflow_provider.group.declarative.member.computing import described, group_of, installed, target_of
from airflow_provider.group.declarative.member.events import (
    AssignmentComputed,
    AssignorsChanged,
    ComputeAssignment,
    DelaySet,
    HeartbeatAnswered,
    InstallAnswered,
    OnAssignment,
    PrepareAnswered,
    Request,
    RequestFailed,
    SendRequest,
    Started,
    TellDelayOver,
)
from airflow_provider.group.declarative.member.settings import DeclarativeSettings
from airflow_provider.group.declarative.member.state import MembershipState
from airflow_provider.group.declarative.protocol.model import LEAVING
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.messages.apis import ReplyBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentResponse,
    InstalledMember,
)
from airflow_provider.group.declarative.protocol.wire.parts import Assignor
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.group.machine.events import Command, Event, LeaveRequested
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ConfigOffset, MemberId, TaskId, Tasks, WorkerId

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
                self.later(1, lambda: self.feed(name, self._computed(name, command)))
            case _:
                super()._carry_out(name, command)

    def _post(self, name: MemberId, sent: SendRequest) -> None:
        number = next(self._sent)
        fate = self._fate(number, name, sent)
        if fate is not None:
            asked = Asked(name, sent, self.now, fate[1])
            self.later(fate[0], lambda: self._arrive(number, asked))
        self.later(sent.timeout_ms, lambda: self._give_up(name, sent))

    def _fate(self, number: int, _name: MemberId, _sent: SendRequest) -> Fate:
        return self.fates[number] if number < len(self.fates) else (1, (1,))

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
        elif isinstance(reply, ConnectGroupPrepareAssignmentResponse):
            self.feed(asked.name, PrepareAnswered(now_ms=now, seq=seq, sent_at_ms=sent_at, reply=reply))

    def _computed(self, name: MemberId, asked: ComputeAssignment) -> AssignmentComputed:
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


class CooperativeGroup(CoordinatedGroup):
    """Workers that come and go, with the cooperative assignor. Nothing gets lost.

    :ivar facts: what each worker says of itself
    :ivar takes_ms: how long a worker's heartbeats are on their way, if longer than other requests
    """

    def __init__(self, *, max_delay_ms: int) -> None:
        super().__init__(0, [])
        self.assignor = CooperativeAssignor(policy=Deferred(max_delay_ms=max_delay_ms))
        self.facts: dict[MemberId, WorkerFacts] = {}
        self.takes_ms: dict[MemberId, int] = {}
        self._lives = 0

    def joins(self, name: MemberId) -> None:
        """Another process by that name, to which no answer comes that the one before has asked for."""
        self._lives += 1
        settings = DeclarativeSettings(group_id="g", worker=WorkerId(name))
        self.members[name] = Held(MembershipState(settings=settings, member_id=name, seq=1_000_000 * self._lives))
        self.facts[name] = WorkerFacts()
        self.feed(
            name,
            Started(
                now_ms=self.now,
                config_offset=ConfigOffset(0),
                assignors=self._described(name),
                predecessor=Predecessor.GONE,
            ),
        )

    def leaves(self, name: MemberId, why: LeaveReason | None = None) -> None:
        self.facts[name] = replace(self.facts[name], leaving=why)
        self.feed(name, LeaveRequested(now_ms=self.now, reason="a test"))

    def is_killed(self, name: MemberId) -> None:
        del self.members[name]

    def says(self, name: MemberId, facts: WorkerFacts) -> None:
        self.facts[name] = facts
        self.feed(name, AssignorsChanged(now_ms=self.now, assignors=self._described(name)))

    def feed(self, name: MemberId, event: Event) -> None:
        if name in self.members:
            super().feed(name, event)
            if self.members[name].state.phase.ended:
                del self.members[name]

    def _described(self, name: MemberId) -> tuple[Assignor, ...]:
        return described((self.assignor,), self.facts[name])

    def _fire(self, name: MemberId, at_ms: int) -> None:
        if name in self.members:
            super()._fire(name, at_ms)

    def _stopped(self, name: MemberId, tasks: Tasks) -> None:
        if name in self.members:
            super()._stopped(name, tasks)

    def _carry_out(self, name: MemberId, command: Command) -> None:
        match command:
            case OnAssignment():
                asks_at = self.assignor.on_assignment(target_of(command.assignment))
                self.later(0, lambda: self._delay_set(name, asks_at))
            case TellDelayOver():
                self.later(0, lambda: self.says(name, replace(self.facts[name], delay_over_ms=command.over_ms)))
            case _:
                super()._carry_out(name, command)

    def _delay_set(self, name: MemberId, asks_at: int | None) -> None:
        self.feed(name, DelaySet(now_ms=self.now, over_at_ms=asks_at, over_ms=asks_at or 0))

    def _post(self, name: MemberId, sent: SendRequest) -> None:
        body = sent.body
        if isinstance(body, ConnectGroupHeartbeatRequest) and body.member_epoch == LEAVING:
            sent = replace(sent, body=replace(body, client_assignors=self._described(name)))
        super()._post(name, sent)

    def _fate(self, _number: int, name: MemberId, sent: SendRequest) -> Fate:
        return self.takes_ms.get(name, 1) if sent.request is Request.HEARTBEAT else 1, (1,)

    def _computed(self, name: MemberId, asked: ComputeAssignment) -> AssignmentComputed:
        prepared = asked.prepared
        made = self.assignor.assign(group_of(prepared, computing=name, now_ms=self.now, revocation_rank={}))
        return AssignmentComputed(
            now_ms=self.now,
            seq=asked.seq,
            group_epoch=prepared.group_epoch,
            members=installed(made.members),
            delayed=installed(made.delayed),
        )
