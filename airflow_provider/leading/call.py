"""A round that a member leads, with all that it needs to know: a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider.assignors.costs import NO_COSTS, Costs
from airflow_provider.assignors.model import Absence
from airflow_provider.assignors.policy import Policy
from airflow_provider.learners.model import Limits
from airflow_provider.membership.events import JoinedMember
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.model import (
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
    """A round that this member leads, with all it needs to know.

    :param last_completed: the last generation that this member completed itself, -1 if none
    :param config_offset: how far this member has read the jobs topic; ``configured`` is of that offset
    :param last_record: the newest group record, read to the end of the status topic
    :param policy: how this leader resolves an imbalance, if the group speaks a cooperative protocol
    :param revocation_rank: what to revoke first when something must be, the lowest rank first
    :param ended: tasks that came to their own end. A member that had not heard so when it joined still reports them;
        it lets go of them by itself, and needs no round of its own for it
    :param failed: what of that has failed for good: whoever reports it keeps it
    :param spoken_epoch: the highest epoch in any record of a worker or a task; 0: there is none
    :param jobs_end: where the jobs topic ended after all had joined; None: not known, so everybody is believed
    :param named: members that keep their name when they come back: a static one does, one of Java Connect's does not
    :param absent: what workers that were in the last round, and are not in this one, have said of their absence
    :param draining: workers that start nothing more, and leave when what they run has finished
    :param ready: what members have said in their own records that they are ready for, maybe after they had joined
    :param stateful: the jobs whose tasks have something to warm up, where tasks are learned before they move
    :param renewed: the jobs that were submitted since the last round
    :param costs: what batch tasks cost, as far as this leader knows; a leader of Java Connect knows nothing of it
    :param asked_for: somebody has asked for this round, so all delays are over
    :param limits: how much is learned together
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
    asked_for: bool = False
    limits: Limits = field(default_factory=Limits)
