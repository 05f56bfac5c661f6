"""How a process of the simulation leads a round, with the product's own views of the topics."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from simulation.jobs import all_of
from simulation.rounds import Computed

from airflow_provider.assignment.model import GOES_ON_RANK
from airflow_provider.group.classic.leader.leader import LeaderAnswer, lead
from airflow_provider.group.classic.member.events import PerformAssignment
from airflow_provider.group.live.classic.leading import (
    absent_since,
    gather_call,
    later_epoch,
    learned_for_nothing,
    unassigned_work,
    waits_in_vain,
)
from airflow_provider.state.blame.evidence import found_a_place
from airflow_provider.state.blame.tried_elsewhere import better_places
from airflow_provider.state.rounds.causes import TRIED_ELSEWHERE
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.slots.free_slots import other_slots, spare_capacity
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import configured
from airflow_provider.values.model import NO_TASKS

if TYPE_CHECKING:
    from simulation.process import Process

BETWEEN_TRIES_MS = 5_000
BETWEEN_HELPS_MS = 400
"""The least times between two rebalances that have failed tasks tried elsewhere, and two for a free slot, as in
``group/live/classic/leader_watch.py``.
"""
BETWEEN_LOOKS_MS = 60_000
"""So long a leader does not look again at what has not changed, unless a time has come. The product never does."""


def lead_round(process: Process, command: PerformAssignment, own: ClassicRecord | None) -> LeaderAnswer:
    """Compute the round from what the process knows of the topics, and tell the world the result.

    :param own: the record of its own last round, which a forgetful leader uses instead of the topic's
    """
    world = process.world
    jobs, status = process.jobs, world.status.snapshot()
    limits = process.settings.limits
    call = gather_call(command, jobs, status, policy=world.policy, at_ms=process.wall, limits=limits)
    if process.forgetful:
        absent = {} if own is None else absent_since(own, command.members, status.workers)
        call = replace(call, last_record=own, absent=absent)
    if not world.named:
        call = replace(call, named=frozenset())
    answer = lead(call)
    key = (command.generation, command.leader)
    world.computed.pop(key, None)  # another coordinator may not know that generation and form it again
    if answer.record is not None:
        last = call.last_record
        since = world.jobs.between(process.config_offset if last is None else last.config_offset, jobs.offset)
        world.computed[key] = Computed(
            answer.record,
            call.configured,
            call.configured.intersection(*(configured(each, status.tasks) for each in since)),
            NO_TASKS.union(*map(all_of, since)) - all_of(jobs),
            last,
            status.workers,
            call.ended,
            call.draining,
            call.stateful,
            frozenset(call.revocation_rank),
            frozenset(task for task, rank in call.revocation_rank.items() if rank == GOES_ON_RANK),
            call.ready,
            call.costs.among(call.configured),
            call.failed,
            frozenset(call.tried.places),
        )
    return answer


class Watch:
    """Looks for reasons to rebalance, like ``group/live/classic/leader_watch.py``, in virtual time."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._helped_at = -BETWEEN_HELPS_MS
        self._tried_at = -BETWEEN_TRIES_MS
        self._seen: tuple[object, ...] = ()
        self._look_at = 0

    def reason(self) -> str | None:
        """The reason for another round, if there is one."""
        process = self._process
        jobs, status, record = process.jobs, process.world.status.snapshot(), process.state.record
        now, seen = process.world.clock.now, (jobs, status, record)
        if now < self._look_at and all(map(operator.is_, seen, self._seen)):
            return None
        reason = self._look(jobs, replace(status, group=record), now)
        self._seen = seen
        self._look_at = now if reason is not None else min(filter(lambda at_ms: at_ms > now, self._times(now)))
        return reason

    def _look(self, jobs: JobsSnapshot, status: StatusSnapshot, now: int) -> str | None:
        reason = (
            unassigned_work(jobs, status)
            or later_epoch(status)
            or waits_in_vain(status)
            or learned_for_nothing(jobs, status)
            or other_slots(status)
            or self._is_learned_too_long()
        )
        if reason is None and self._has_tries(jobs, status) and now >= self._tried_at + BETWEEN_TRIES_MS:
            self._tried_at = now
            return TRIED_ELSEWHERE
        if reason is not None or now < self._helped_at + BETWEEN_HELPS_MS:
            return reason
        wall_ms = self._process.wall
        pinned = found_a_place(jobs, status, wall_ms=wall_ms)
        reason = spare_capacity(jobs, status, wall_ms=wall_ms, pinned=pinned)
        if reason is not None:
            self._helped_at = now
        return reason

    def _times(self, now: int) -> Iterator[int]:
        """When it looks again, though nothing has changed."""
        yield now + BETWEEN_LOOKS_MS
        yield self._helped_at + BETWEEN_HELPS_MS
        yield self._tried_at + BETWEEN_TRIES_MS
        if (due := self._overdue_at()) is not None:
            yield due - self._process.wall + now

    def _has_tries(self, jobs: JobsSnapshot, status: StatusSnapshot) -> bool:
        record = self._process.state.record
        if record is None or record.revokes or record.delay_ms or record.deadline_ms:
            return False
        return bool(better_places(jobs, status, wall_ms=self._process.wall))

    def _is_learned_too_long(self) -> str | None:
        """Whether a learner has exceeded its time since the last round."""
        due = self._overdue_at()
        return None if due is None or self._process.wall < due else "a task has been learned for too long"

    def _overdue_at(self) -> int | None:
        record = self._process.state.record
        memory = None if record is None else record.learner_memory
        if record is None or memory is None:
            return None
        return memory.overdue_at_ms(self._process.settings.limits, after_ms=record.at_ms)
