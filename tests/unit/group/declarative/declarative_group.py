"""Some members of a declarative group and a tiny coordinator, in virtual time, over a network that loses, delays and
doubles. What must never happen is checked after each step.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from declarative_script import ASSIGNORS

from airflow_provider.group.declarative.member.events import (
    HeartbeatAnswered,
    Request,
    RequestFailed,
    Resumed,
    SendRequest,
    Started,
)
from airflow_provider.group.declarative.member.member import handle
from airflow_provider.group.declarative.member.saved import resume, save
from airflow_provider.group.declarative.member.settings import DeclarativeSettings
from airflow_provider.group.declarative.member.state import MembershipState, Phase
from airflow_provider.group.declarative.protocol.model import (
    JOINING,
    LEAVING,
    AssignmentEpoch,
    CurrentAssignment,
    MemberEpoch,
    MemberState,
    MemberTarget,
)
from airflow_provider.group.declarative.protocol.reconcile import reconcile
from airflow_provider.group.declarative.protocol.units import tasks_of, units_of
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    HeartbeatAssignment,
)
from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.machine.events import (
    ArmTimer,
    Command,
    Event,
    StartTasks,
    StopTasks,
    TasksFinished,
    TasksStopped,
    TimerFired,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import NO_TASKS, ConfigOffset, MemberId, Tasks, WorkerId

SESSION_MS = 10_000
INTERVAL_MS = 3_000


@dataclass
class TinyCoordinator:
    """Answers heartbeats as :mod:`airflow_provider.group.declarative.protocol.reconcile` says. A test sets the
    targets.
    """

    epoch: int = 0
    targets: dict[MemberId, Tasks] = field(default_factory=dict)
    current: dict[MemberId, CurrentAssignment] = field(default_factory=dict)
    heard_at: dict[MemberId, int] = field(default_factory=dict)
    departed: list[tuple[int, Tasks]] = field(default_factory=list)

    def set_targets(self, targets: Mapping[MemberId, Tasks]) -> None:
        self.epoch += 1
        self.targets = dict(targets)

    def expire(self, now_ms: int) -> None:
        for member in [one for one, at in self.heard_at.items() if now_ms - at >= SESSION_MS]:
            self.forget(member)

    def forget(self, member: MemberId) -> None:
        """What it held nobody is given before its session would have been over."""
        if member in self.current:
            self.departed.append((self.heard_at.pop(member) + SESSION_MS, self.current.pop(member).held))

    def answer(self, body: ConnectGroupHeartbeatRequest, now_ms: int) -> ConnectGroupHeartbeatResponse:
        self.expire(now_ms)
        me, epoch = body.member_id, body.member_epoch
        owned = None if body.connectors_and_tasks is None else tasks_of(body.connectors_and_tasks)
        if epoch == LEAVING:
            self.current.pop(me, None)
            self.heard_at.pop(me, None)
            return self._reply(LEAVING)
        if me not in self.current:
            if epoch != JOINING or owned != NO_TASKS:
                return self._error(KafkaErrorCode.UNKNOWN_MEMBER_ID)
            self.current[me] = CurrentAssignment()
        now = self.current[me]
        lost = owned is not None and owned <= self.targets.get(me, NO_TASKS)
        if epoch != now.epoch and not lost:
            self.forget(me)
            return self._error(KafkaErrorCode.FENCED_MEMBER_EPOCH)
        self.heard_at[me] = now_ms
        self.departed = [(until, had) for until, had in self.departed if now_ms < until]
        others = [other.held for member, other in self.current.items() if member != me]
        held = NO_TASKS.union(*others, *(had for _, had in self.departed))
        target = MemberTarget(tasks=self.targets.get(me, NO_TASKS))
        after = reconcile(now, target, AssignmentEpoch(self.epoch), owned=owned, held_by_others=held)
        self.current[me] = after
        told = None
        if epoch < self.epoch:
            told = HeartbeatAssignment(
                connectors_and_tasks=units_of(after.assigned), assignment_epoch=after.assignment_epoch
            )
        return self._reply(after.epoch, told)

    def is_settled(self) -> bool:
        return all(
            one.state is MemberState.STABLE and one.assigned == self.targets.get(member, NO_TASKS)
            for member, one in self.current.items()
        )

    def _reply(
        self, epoch: MemberEpoch, assignment: HeartbeatAssignment | None = None
    ) -> ConnectGroupHeartbeatResponse:
        return ConnectGroupHeartbeatResponse(
            member_epoch=epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            session_timeout_ms=SESSION_MS,
            assignment=assignment,
        )

    def _error(self, error: KafkaErrorCode) -> ConnectGroupHeartbeatResponse:
        return ConnectGroupHeartbeatResponse(error_code=error, member_epoch=JOINING, heartbeat_interval_ms=0)


@dataclass
class Held:
    """A member and what drives it.

    :ivar told_epoch: the last one that an answer told it which it took in
    :ivar runs: what runs in it, whatever it thinks
    :ivar stop_ms: how long the longest stop takes that is under way
    :ivar stops_until: when the last stop that is under way ends
    """

    state: MembershipState
    alarm: int | None = None
    told_epoch: MemberEpoch = JOINING
    runs: Tasks = NO_TASKS
    stop_ms: int = 0
    stops_until: int = 0

    def stops(self, now: int, stop_ms: int) -> None:
        self.stop_ms = max(stop_ms, self.stop_ms if now < self.stops_until else 0)
        self.stops_until = max(self.stops_until, now + stop_ms)


@dataclass(frozen=True, order=True)
class Due:
    at: int
    number: int
    do: Callable[[], None] = field(compare=False)


class TinyGroup:
    """Members ``m0``, ``m1``, ... of one group.

    :param fate: by the number of a request: after how many milliseconds it arrives, its answers after that; none if it
        is lost. Further requests take a millisecond there and back
    """

    def __init__(self, members: int, fates: list[tuple[int, tuple[int, ...]] | None]) -> None:
        self.now = 0
        self.coordinator = TinyCoordinator()
        self.fates = fates
        self.stop_ms = 5
        self._sent = count()
        self._queue: list[Due] = []
        self._numbers = count()
        self.members = {MemberId(f"m{number}"): self._made(number) for number in range(members)}
        for name in self.members:
            self.feed(
                name,
                Started(now_ms=0, config_offset=ConfigOffset(0), predecessor=Predecessor.GONE, assignors=ASSIGNORS),
            )

    def _made(self, number: int) -> Held:
        settings = DeclarativeSettings(group_id="g", worker=WorkerId(f"w{number}"))
        return Held(MembershipState(settings=settings, member_id=MemberId(f"m{number}")))

    def later(self, after_ms: int, do: Callable[[], None]) -> None:
        heapq.heappush(self._queue, Due(self.now + after_ms, next(self._numbers), do))

    def run(self, for_ms: int) -> None:
        until = self.now + for_ms
        while self._queue and self._queue[0].at <= until:
            due = heapq.heappop(self._queue)
            self.now = max(self.now, due.at)
            due.do()
            self.check()
        self.now = until

    def feed(self, name: MemberId, event: Event) -> None:
        one = self.members[name]
        before = one.state
        one.state, commands = handle(before, event)
        one.state.validate()
        self._note_epoch(one, before, event)
        kinds = {type(command) for command in commands}
        revokes = any(isinstance(each, StopTasks) and each.reason is StopReason.REVOKED for each in commands)
        assert not (revokes and StartTasks in kinds), "both together"
        for command in commands:
            self._carry_out(name, command)

    def _note_epoch(self, one: Held, before: MembershipState, event: Event) -> None:
        if isinstance(event, HeartbeatAnswered) and event.seq == before.awaiting and not event.reply.error_code:
            one.told_epoch = event.reply.member_epoch
        if one.state.phase is Phase.JOINING:
            one.told_epoch = JOINING

    def _carry_out(self, name: MemberId, command: Command) -> None:
        one = self.members[name]
        match command:
            case SendRequest():
                assert isinstance(command.body, ConnectGroupHeartbeatRequest)
                self._check_sent(one, command.body)
                self._send(name, command.seq, command.body, command.timeout_ms)
            case StartTasks():
                assert not command.tasks & one.runs, "started twice"
                one.runs |= command.tasks
            case StopTasks():
                one.stops(self.now, self.stop_ms)
                self.later(self.stop_ms, lambda: self._stopped(name, command.tasks))
            case ArmTimer():
                one.alarm = command.at_ms
                self.later(max(0, command.at_ms - self.now), lambda: self._fire(name, command.at_ms))

    def _check_sent(self, one: Held, body: ConnectGroupHeartbeatRequest) -> None:
        assert body.member_epoch in (one.told_epoch, LEAVING)
        if body.connectors_and_tasks is not None:
            owned = tasks_of(body.connectors_and_tasks)
            assert one.runs <= owned, "it says that it does not own what runs"
            assert owned == one.state.owned

    def _send(self, name: MemberId, seq: int, body: ConnectGroupHeartbeatRequest, timeout_ms: int) -> None:
        number, sent_at = next(self._sent), self.now
        fate = self.fates[number] if number < len(self.fates) else (1, (1,))

        def arrive() -> None:
            reply = self.coordinator.answer(body, self.now)
            for after_ms in fate[1] if fate is not None else ():
                self.later(after_ms, lambda: self._answered(name, seq, sent_at, reply))

        if fate is not None:
            self.later(fate[0], arrive)
        self.later(timeout_ms, lambda: self._time_out(name, seq))

    def _answered(self, name: MemberId, seq: int, sent_at_ms: int, reply: ConnectGroupHeartbeatResponse) -> None:
        self.feed(name, HeartbeatAnswered(now_ms=self.now, seq=seq, sent_at_ms=sent_at_ms, reply=reply))

    def _time_out(self, name: MemberId, seq: int) -> None:
        self.feed(name, RequestFailed(now_ms=self.now, seq=seq, request=Request.HEARTBEAT, cause="no reply"))

    def _stopped(self, name: MemberId, tasks: Tasks) -> None:
        self.members[name].runs -= tasks
        self.feed(name, TasksStopped(now_ms=self.now, tasks=tasks))

    def finish(self, name: MemberId, tasks: Tasks) -> None:
        tasks &= self.members[name].runs
        self.members[name].runs -= tasks
        self.feed(name, TasksFinished(now_ms=self.now, tasks=tasks))

    def drop(self, name: MemberId, tasks: Tasks) -> None:
        """They stop without being told to."""
        tasks &= self.members[name].runs - self.members[name].state.stopping
        self.members[name].runs -= tasks
        self.feed(name, TasksStopped(now_ms=self.now, tasks=tasks))

    def hand_over(self, name: MemberId) -> None:
        """Another process goes on with it, unless something runs here; nobody hears the answer on its way."""
        one = self.members[name]
        if one.runs or one.state.stopping or one.state.phase not in (Phase.JOINING, Phase.STABLE):
            return
        saved = json.loads(json.dumps(save(one.state, now_ms=self.now, wall_ms=1_000 + self.now)))
        state = resume(saved, one.state.settings, now_ms=self.now, wall_ms=1_000 + self.now)
        one.state, one.alarm = state.changed({"seq": one.state.seq}), None
        one.state.validate()
        self.feed(name, Resumed(now_ms=self.now, config_offset=ConfigOffset(0), assignors=ASSIGNORS))

    def _fire(self, name: MemberId, at_ms: int) -> None:
        one = self.members[name]
        if one.alarm == at_ms:
            one.alarm = None
            self.feed(name, TimerFired(now_ms=self.now))

    def check(self) -> None:
        """What must hold at any time."""
        for name, one in self.members.items():
            assert one.runs == one.runs & one.state.owned, f"{name} runs what it does not own"
            until = one.state.lease_until
            if until is None or self.now >= until:
                assert one.state.running <= one.state.stopping, f"{name} runs without a lease"
            elif self.now > until - one.state.margin_ms + one.stop_ms:
                assert not one.runs, f"{name} has not stopped in time"
        seen: Tasks = NO_TASKS
        for one in self.members.values():
            if one.state.lease_until is not None and self.now < one.state.lease_until:
                assert not seen & one.runs, "two run it"
                seen |= one.runs
