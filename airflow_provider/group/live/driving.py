"""Drives a membership in any group protocol: feeds its machine, and carries out the commands that all machines have.

Everything runs on one event loop. Nothing is decided here, but for two ends of a membership that a machine can't know:
a fault of this program, and topics that are gone.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ClassVar, Final, Generic, TypeVar

from airflow_provider.group.held_tasks import Predecessor, StopReason
from airflow_provider.group.live.timers import Timer, call_at
from airflow_provider.group.live.topics_watch import TopicsWatch
from airflow_provider.group.machine.events import (
    ArmTimer,
    Command,
    ConfigAdvanced,
    Event,
    Fail,
    LeaveRequested,
    PublishAssignment,
    StartTasks,
    StopTasks,
    TasksFinished,
    TasksStopped,
    TimerFired,
    Warn,
)
from airflow_provider.group.machine.state import CommonState
from airflow_provider.group.membership import Ended, HowEnded, MembershipListener, Saved
from airflow_provider.kafka.clock import now_ms
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.model import Tasks, WorkerId
from airflow_provider.values.recent_events import Story

log = logging.getLogger(__name__)

_TOGETHER_MS: Final = 10
_PART_OF_WAIT: Final = 50
"""Timers are due together: every so many milliseconds, or this fraction of the wait, if that is longer. So many
memberships share the cost of a turn of the loop, with its system call.
"""

_WRITE_WITHIN_S: Final = 2.0

S = TypeVar("S", bound=CommonState)


class Driving(ABC, Generic[S]):
    """One membership (:class:`~airflow_provider.group.membership.Membership`); each protocol has a subclass.

    :param handle: the machine
    :param is_routine: whether an event and its commands, without a change of phase, are no part of the story
    :param patience_s: how long topics may be missing, in seconds
    :cvar about: what it has to be told of the topics
    :cvar most_together_ms: the longest interval, in milliseconds, within which timers are due together
    """

    about: ClassVar[About]
    most_together_ms: ClassVar[int] = _TOGETHER_MS

    def __init__(
        self,
        state: S,
        handle: Callable[[S, Event], tuple[S, list[Command]]],
        topics: GroupTopics,
        listener: MembershipListener,
        *,
        is_routine: Callable[[Event, Iterable[Command]], bool],
        patience_s: float,
    ) -> None:
        self.state = state
        self._handle = handle
        self._is_routine = is_routine
        self._story = Story()
        self._topics = topics
        self._listener = listener
        self._inbox: list[Event] = []  # mostly empty; a deque would take 700 bytes
        self._draining = False
        self._driving = True
        self._failed = False
        self._timer: Timer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writes: set[asyncio.Task[None]] = set()
        self._unsubscribe: Callable[[], None] | None = None
        self._topics_watch = TopicsWatch(topics, patience_s=patience_s, gone=self._topics_gone)
        self._leaving_for: str | None = None

    # ---- what each protocol adds

    @abstractmethod
    def _first_event(self, predecessor: Predecessor) -> Event:
        """The first event, which depends on the state."""

    def _phase_changed(self) -> None:
        """React to another phase, after the commands."""
        if self.state.phase.value == HowEnded.LEFT.value:
            self._has_left()

    @abstractmethod
    def _save(self) -> Saved:
        """The state as JSON, for another process."""

    def _explain(self, error: str) -> str:
        """Complete a machine's error with what only its caller knows."""
        return error

    def story(self) -> str:
        return str(self._story)

    # ---- what the worker reports

    def begin(self, predecessor: Predecessor) -> None:
        self._topics_watch.begin()
        self._unsubscribe = self._topics.subscribe(self._on_topics, self.about)
        self.feed(self._first_event(predecessor))
        self._on_topics()

    def tasks_stopped(self, tasks: Tasks) -> None:
        self.feed(TasksStopped(now_ms=now_ms(), tasks=tasks))

    def tasks_finished(self, tasks: Tasks) -> None:
        self.feed(TasksFinished(now_ms=now_ms(), tasks=tasks))

    def leave(self, reason: str) -> None:
        self.feed(LeaveRequested(now_ms=now_ms(), reason=reason))

    @property
    def lease_until_ms(self) -> int | None:
        return self.state.lease_until if self._driving else None

    async def hand_over(self) -> Saved:
        saved = self._save()
        await self.aclose()
        return saved

    def fail(self, bug: BaseException) -> None:
        """End the membership after a fault of this program: a worker must not look alive when it is not.

        It stops its tasks and does not leave: the next process under its name gets them, within the session.
        """
        if self._failed:
            return
        story = self.story()
        log.error(
            "group %s, worker %s: the membership ends because of a fault of this program%s",
            self._group_id,
            self._worker,
            f"; what happened last:\n{story}" if story else "",
            exc_info=bug,
        )
        self._end(f"a fault of this program: {type(bug).__name__}: {bug}")

    async def aclose(self) -> None:
        """Stop driving, without leaving. A group record that is being written is finished: the process that continues
        this membership, or leads after it, needs it.
        """
        self._stop_driving()
        if self._writes:
            await asyncio.wait(self._writes, timeout=_WRITE_WITHIN_S)
        unfinished = tuple(self._tasks)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    # ---- events in, commands out

    def feed(self, event: Event) -> None:
        """Handle an event, after those that are being handled.

        When the membership is not driven any more, events are dropped: a late answer must not restart it, as it may
        have been handed over.
        """
        if not self._driving:
            return
        self._inbox.append(event)
        if self._draining:
            return
        self._draining = True
        try:
            while self._inbox and self._driving:
                self._step(self._inbox.pop(0))
        except Exception as bug:  # noqa: BLE001  a fault of the machine or the listener, not of the caller
            self.fail(bug)
        finally:
            self._draining = False

    def _step(self, event: Event) -> None:
        """Let the machine handle an event, and carry out its commands."""
        before = self.state.phase
        self.state, commands = self._handle(self.state, event)
        after = self.state.phase
        told = [command for command in commands if not isinstance(command, ArmTimer)]
        if before is not after or not self._is_routine(event, told):
            phases = before.value if before is after else f"{before.value} -> {after.value}"
            self._story.add(f"{event.now_ms} ms, {phases}", event, told)
        for command in commands:
            self._execute(command)
        if after is not before:
            self._phase_changed()

    def _execute(self, command: Command) -> None:
        match command:
            case ArmTimer():
                self._arm(command.at_ms)
            case StartTasks():
                self._listener.start_tasks(command.tasks, command.epoch)
            case StopTasks():
                self._listener.stop_tasks(command.tasks, command.reason)
            case PublishAssignment():
                self._listener.assigned(command.epoch)
            case Warn():
                log.warning("group %s, worker %s: %s", self._group_id, self._worker, command.message)
            case Fail():
                error = self._explain(command.error)
                log.error("group %s, worker %s: %s", self._group_id, self._worker, error)
                self._listener.ended(Ended(how=HowEnded(self.state.phase.value), error=error))
            case _:
                raise AssertionError(f"no way to carry out {command}")

    def _has_left(self) -> None:
        how = HowEnded.FAILED if self._leaving_for else HowEnded.LEFT
        self._listener.ended(Ended(how=how, error=self._leaving_for))

    def _arm(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        together_ms = max(_TOGETHER_MS, min((at_ms - now_ms()) // _PART_OF_WAIT, self.most_together_ms))
        self._timer = call_at((at_ms // together_ms + 1) * together_ms, self._fire)

    def _fire(self) -> None:
        self.feed(TimerFired(now_ms=now_ms()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something in the background; a fault in it ends the membership."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _write(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something that writes a record; it is finished even if the membership ends."""
        task = self._spawn(work)
        self._writes.add(task)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._writes.discard(task)
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            self.fail(bug)

    # ---- the topics

    def _on_topics(self) -> None:
        """React to a topic that has something new, is gone, or can't be read any more."""
        fault = self._topics.fault
        if fault is not None:
            self.fail(fault)
            return
        self._topics_watch.look()
        offset = self._topics.jobs.offset
        if offset > self.state.config_offset:
            self.feed(ConfigAdvanced(now_ms=now_ms(), config_offset=offset))

    # ---- ends that the machine does not decide

    def _topics_gone(self, topic: str) -> None:
        self._leaving_for = (
            f"the topic {topic!r} of group {self._group_id!r} is gone; was the broker started again without its"
            " data? A starting worker creates missing topics again; jobs have to be submitted again"
        )
        log.error("group %s, worker %s: %s", self._group_id, self._worker, self._leaving_for)
        self.leave("the topics of the group are gone")

    def _end(self, error: str) -> None:
        if self._failed:
            return
        self._failed = True
        self._stop_driving()
        self._give_up()
        try:
            self._listener.stop_tasks(self.state.owned, StopReason.FAILED)
        except Exception:
            log.exception("group %s, worker %s: its tasks were not told to stop", self._group_id, self._worker)
        self._listener.ended(Ended(how=HowEnded.FAILED, error=error))

    def _give_up(self) -> None:
        """Cancel all background work, except for writes."""
        for task in self._tasks - self._writes:
            task.cancel()

    def _stop_driving(self) -> None:
        self._driving = False
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _group_id(self) -> str:
        return self.state.settings.group_id

    @property
    def _worker(self) -> WorkerId:
        return self.state.settings.worker
