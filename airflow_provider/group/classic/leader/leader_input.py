"""The input of a leader, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider.assignment.costs import NO_COSTS, Costs
from airflow_provider.assignment.learners.model import Limits
from airflow_provider.assignment.model import NONE_ELSEWHERE, Absence, TriedElsewhere
from airflow_provider.assignment.policy import Policy
from airflow_provider.group.classic.member.events import JoinedMember
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import (
    NO_TASKS,
    ConfigOffset,
    Epoch,
    GenerationId,
    MemberId,
    SubProtocol,
    TaskId,
    Tasks,
    WorkerId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A round that this member leads, with everything that the leader needs to know.

    :param members: all members, with the metadata with which they have joined
    :param configured: the planners and tasks that exist
    :param last_completed: the last generation that this member has completed itself; -1: none
    :param config_offset: how far this member has read the jobs topic; ``configured`` is of that offset
    :param last_record: the newest group record in the status topic
    :param policy: how this leader resolves an imbalance, if the group speaks a cooperative protocol
    :param reason: why this member has joined, as far as it knows
    :param revocation_rank: which running tasks to stop first if some must be stopped: those with the lowest rank
    :param ended: tasks that have ended by themselves. A member that did not know this when it joined still reports
        them. It releases them by itself, without another round
    :param failed: those of ``ended`` that have failed for good. The worker that reports such a task keeps it
    :param spoken_epoch: the highest epoch in any record of a worker or a task, or in which this member was; 0: none
    :param jobs_end: the end of the jobs topic after all had joined; None: unknown, so all offsets are believed
    :param named: members that keep their name when they return: static ones do, Java Connect's do not
    :param absent: what workers that were in the last round, and are not in this one, have said of their absence
    :param draining: workers that drain
    :param ready: learner tasks that are ready, according to the members' own records, which may be newer than their
        metadata
    :param stateful: the jobs whose tasks are learned before they move, because they have something to warm up
    :param renewed: the jobs that were submitted since the last round
    :param costs: what batch tasks cost, as far as this leader knows. A leader of Java Connect does not know it
    :param tried: the tasks that have failed, and where they are tried again. A leader of Java Connect does not know it
    :param asked_for: people have asked for this round, so all delays are over
    :param limits: how much may be learned at the same time
    :param now_ms: wall clock, milliseconds since 1970
    """

    generation: GenerationId
    protocol: SubProtocol
    leader: MemberId
    last_completed: GenerationId
    members: tuple[JoinedMember, ...]
    configured: Tasks
    config_offset: ConfigOffset
    last_record: ClassicRecord | None
    policy: Policy
    now_ms: int
    reason: str
    revocation_rank: Mapping[TaskId, int] = field(default_factory=dict)
    ended: Tasks = NO_TASKS
    failed: Tasks = NO_TASKS
    spoken_epoch: Epoch = Epoch(0)
    jobs_end: ConfigOffset | None = None
    named: frozenset[WorkerId] = frozenset()
    absent: Mapping[WorkerId, Absence] = field(default_factory=dict)
    draining: frozenset[WorkerId] = frozenset()
    ready: Mapping[WorkerId, Tasks] = field(default_factory=dict)
    stateful: frozenset[str] = frozenset()
    renewed: frozenset[str] = frozenset()
    costs: Costs = NO_COSTS
    tried: TriedElsewhere = NONE_ELSEWHERE
    asked_for: bool = False
    limits: Limits = field(default_factory=Limits)
