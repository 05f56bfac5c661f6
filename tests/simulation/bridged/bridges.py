"""The bridges of a candidate coordinator: processes of the classic world that live and sleep with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.declarative.candidate import Candidate
from simulation.process import Process

from airflow_provider.group.classic.member.events import RecordRead, UrlChanged
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.declarative.bridge.talk import BridgeTalk, still_claimed
from airflow_provider.group.declarative.coordinator.events import BridgeAsks, BridgeClaims, BridgeLost, ToBridge
from airflow_provider.group.declarative.server.migration.bridges import PutWord
from airflow_provider.group.held_tasks import StopReason
from airflow_provider.group.machine.events import Event, LeaveRequested, TasksFinished, TasksStopped
from airflow_provider.values.group_protocol.bridge import BRIDGE
from airflow_provider.values.model import NO_TASKS, Epoch, Tasks

if TYPE_CHECKING:
    from simulation.bridged.world import BridgedWorld, ClassicSide

SESSION_MS = 12_000
"""Shorter than it should be: safety must not depend on it."""
LOOK_MS = 500


class Hands:
    """A bridge runs nothing: it passes its assignment on to its coordinator."""

    def __init__(self, process: Process, talk: BridgeTalk) -> None:
        self._process = process
        self.talk = talk
        self.since: dict[Any, int] = {}
        self.belated: set[Any] = set()
        self.learning: dict[Any, float] = {}
        self.active = self.working = self.failed = self.learners = NO_TASKS
        self.at_work = True
        self.awaits_own_record_since_ms = 0

    @property
    def held(self) -> Tasks:
        return self._process.state.owned

    def start(self, tasks: Tasks, epoch: Epoch) -> None:
        self.talk.start_tasks(tasks, epoch)

    def stop(self, tasks: Tasks, reason: StopReason) -> None:
        self.talk.stop_tasks(tasks, reason)

    def advance(self, epoch: Epoch) -> None:
        self.talk.assigned(epoch)

    def nothing(self, *_: object) -> None: ...

    read = note_belated = in_trouble = end_with_process = own_record_read = learn = stop_learning = drain = nothing


class Bridge(Process):
    """It is in the candidate's process and has its clock."""

    def __init__(self, world: ClassicSide, candidate: Candidate, name: str, claims: BridgeClaims, put: PutWord) -> None:
        settings = MemberSettings(
            group_id="g", worker=BRIDGE, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=SESSION_MS
        )
        super().__init__(world, settings, name)
        self.clock = candidate.clock
        self.touched = True
        last = world.record
        claims = still_claimed(claims, last, "g", put, self.now)
        self.state = MemberState(settings=settings, owned=claims.tasks)
        self._put = put
        self.talk = BridgeTalk("g", claims, self, put, lambda: self.now, last)
        self.tasks = Hands(self, self.talk)  # type: ignore[assignment]
        world.owns(self, NO_TASKS, claims.tasks)

    @property
    def leaving(self) -> bool:
        return self.state.phase is Phase.LEAVING

    @property
    def lease_until_ms(self) -> int | None:
        return self.state.lease_until

    def tasks_stopped(self, tasks: Tasks) -> None:
        self.feed(TasksStopped(now_ms=self.now, tasks=tasks))

    def tasks_finished(self, tasks: Tasks) -> None:
        self.feed(TasksFinished(now_ms=self.now, tasks=tasks))

    def say(self, words: Any) -> None:
        """A bridge reports its url to the group; other processes write to the topics."""
        if isinstance(words, str):
            self.feed(UrlChanged(now_ms=self.now, url=words))
        else:
            super().say(words)

    def _step(self, event: Event) -> None:
        if isinstance(event, RecordRead):
            self.talk.read(event.record)
        super()._step(event)

    def leave(self, reason: str) -> None:  # type: ignore[override]
        self.feed(LeaveRequested(now_ms=self.now, reason=reason))

    def hear(self, asked: BridgeAsks, answer: ToBridge) -> None:
        def heard() -> None:
            self.talk.hear(asked, answer)

        self.when_awake(heard)

    def look(self) -> None:
        """Every now and then."""
        if not self.alive:
            return
        if self.state.phase.ended:
            self.kill()
            self._put(BridgeLost(now_ms=self.now, group_id="g", why="" if self.state.phase is Phase.LEFT else "ended"))
            return
        if not self.asleep:
            self.talk.look(self.world.configured)
        self.world.clock.after(LOOK_MS, lambda: self.when_awake(self.look))


class SimulatedBridges:
    """The bridges of one candidate, which has one group."""

    def __init__(self, world: BridgedWorld, candidate: Candidate) -> None:
        self._world = world
        self._candidate = candidate
        self.bridge: Bridge | None = None

    def open(self, group: str, claims: BridgeClaims, put: PutWord) -> None:
        if self.bridge is None or not self.bridge.alive:
            self.bridge = self._world.classic.bridge(self._candidate, claims, put)

    def asks(self, group: str) -> BridgeAsks:
        return BridgeAsks() if self.bridge is None else self.bridge.talk.asks

    def tell(self, group: str, asked: BridgeAsks, answer: ToBridge) -> None:
        bridge = self.bridge
        if bridge is not None:
            self._world.clock.after(self._candidate.rng.randint(0, 5), lambda: bridge.hear(asked, answer))

    def close(self, group: str, put: PutWord) -> None:
        if self.bridge is not None and self.bridge.alive:
            self.bridge.kill()
