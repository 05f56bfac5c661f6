"""Declares every metric: its name, kind and meaning, and its counterpart in Kafka Connect.

Whatever shows metrics (the table in the docs, the dashboard, the alerting rules, the mapping of a StatsD exporter) is
generated from this, or checked against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

_REBALANCE: Final = "connect-worker-rebalance-metrics"
_WORKER: Final = "connect-worker-metrics"
_CONNECTOR: Final = "connect-worker-metrics,connector=*"


class Kind(str, Enum):
    """The kind of a metric."""

    GAUGE = "gauge"
    """A present value."""
    COUNTER = "counter"
    """How often something has happened since the last sample."""
    TIMING = "timing"
    """How long something took, in milliseconds."""


class Tag(str, Enum):
    """What distinguishes the values of a metric."""

    GROUP = "group"
    JOB = "job"
    STATE = "state"
    REASON = "reason"
    SHARD = "shard"
    UNIT = "unit"


class Speaker(str, Enum):
    """The process that sends a metric. If two did, it would be counted twice, or flicker."""

    SPOKESMAN = "spokesman"
    """The one that holds the group's spokesman, see :func:`~airflow_provider.state.metrics.spokesman.spokesman`."""
    LEADER = "leader"
    """The one that holds the worker that led the round."""
    OWNER = "owner"
    """The one that holds the worker concerned."""
    COORDINATOR = "coordinator"
    """One that coordinates declarative groups; of a shard, the one that it is assigned to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    :param name: dotted, without Airflow's prefix
    :param tags: in the order in which they are in the name, where a backend has no tags
    :param connect: the MBean of Kafka Connect (without ``kafka.connect:type=``) and its attribute; None: none
    """

    name: str
    kind: Kind
    speaker: Speaker
    meaning: str
    tags: tuple[Tag, ...] = (Tag.GROUP,)
    connect: tuple[str, str] | None = None


_JOB: Final = (Tag.GROUP, Tag.JOB)


def _group(
    name: str, meaning: str, connect: tuple[str, str] | None = None, tags: tuple[Tag, ...] = (Tag.GROUP,)
) -> Metric:
    return Metric(name=name, kind=Kind.GAUGE, speaker=Speaker.SPOKESMAN, meaning=meaning, tags=tags, connect=connect)


def _task(name: str, meaning: str, connect: tuple[str, str] | None = None) -> Metric:
    return Metric(name=name, kind=Kind.COUNTER, speaker=Speaker.OWNER, meaning=meaning, tags=_JOB, connect=connect)


def _time(name: str, meaning: str) -> Metric:
    return Metric(name=name, kind=Kind.TIMING, speaker=Speaker.OWNER, meaning=meaning, tags=_JOB)


MEMBERS: Final = _group(
    "cospark.group.members", "workers in the group: the members of its last round, except those that have left since"
)
EPOCH: Final = _group("cospark.group.epoch", "the number of the last assignment", (_REBALANCE, "epoch"))
CONVERGED: Final = _group(
    "cospark.group.converged",
    "1 if each worker has applied its assignment and no further round is to follow, else 0",
    (_REBALANCE, "rebalancing"),
)
UNCONVERGED_S: Final = _group(
    "cospark.group.unconverged_seconds", "how long the group has not been converged; 0 if it is"
)
SINCE_REBALANCE_S: Final = _group(
    "cospark.group.since_rebalance_seconds",
    "how long ago the last round was computed",
    (_REBALANCE, "time-since-last-rebalance-ms"),
)
LOST_TASKS: Final = _group("cospark.group.lost_tasks", "tasks that wait for their lost worker to come back")
SLOTS: Final = _group("cospark.group.slots", "how many slots all workers in the group have together")
BUSY_SLOTS: Final = _group(
    "cospark.group.busy_slots", "how many of these slots running tasks take", (_WORKER, "task-count")
)
LACKING_SLOTS: Final = _group(
    "cospark.group.lacking_slots",
    "slots for which tasks wait now, because no worker has them free: this many would have to be added",
)
SPARE_SLOTS: Final = _group(
    "cospark.group.spare_slots",
    "slots that stay free when all tasks that are to run have started: this many could be removed",
)
MISSING_SLOTS: Final = _group(
    "cospark.group.missing_slots", "slots that are missing for unbounded tasks: some of these tasks will never start"
)
JOBS: Final = _group("cospark.group.jobs", "jobs that are defined", (_WORKER, "connector-count"))
TASKS: Final = _group(
    "cospark.job.tasks",
    "tasks of the job's present run in each state, without planners",
    (_CONNECTOR, "connector-{running,failed,unassigned,restarting}-task-count"),
    (*_JOB, Tag.STATE),
)
PENDING_AGE_S: Final = _group(
    "cospark.job.pending_age_seconds",
    "how long the longest waiting task has waited to start; 0 if none waits",
    tags=_JOB,
)
FAILING: Final = _group(
    "cospark.job.failing_tasks", "tasks that have failed at least five times in a row and are tried again", tags=_JOB
)
BEHIND: Final = _group(
    "cospark.job.behind",
    "what the job's running streams are known to have still to read, together, in each unit (offsets, files, versions,"
    " bytes) in which something is known",
    tags=(*_JOB, Tag.UNIT),
)
LAG_UNKNOWN: Final = _group(
    "cospark.job.lag_unknown", "running streams of which nobody knows how far they are behind now", tags=_JOB
)
LAST_BATCH_AGE_S: Final = _group(
    "cospark.job.last_batch_age_seconds",
    "how long ago the last batch began that has ended, of the running stream with the oldest one; one with nothing to"
    " read counts",
    tags=_JOB,
)
ROWS_PER_S: Final = _group(
    "cospark.job.rows_per_second",
    "rows per second that running streams processed in their last batches, together",
    tags=_JOB,
)
ROWS_PER_S_IN: Final = _group(
    "cospark.job.rows_per_second_in", "rows per second that came in for these batches, together", tags=_JOB
)
LEARNERS: Final = _group(
    "cospark.job.learners", "learner tasks: tasks that a worker makes ready while another one runs them", tags=_JOB
)
LEARNER_LAG: Final = _group(
    "cospark.job.learner_lag", "how far the learner with the least progress is from ready: 0 (ready) to 1", tags=_JOB
)

REBALANCES: Final = Metric(
    name="cospark.rebalances",
    kind=Kind.COUNTER,
    speaker=Speaker.LEADER,
    meaning="completed rounds",
    connect=(_REBALANCE, "completed-rebalances-total"),
)
REBALANCE_TIME: Final = Metric(
    name="cospark.rebalance_time",
    kind=Kind.TIMING,
    speaker=Speaker.SPOKESMAN,
    meaning="from the first round that changed a converged group until it was converged again, its delays included",
    connect=(_REBALANCE, "rebalance-{avg,max}-time-ms"),
)
MOVED: Final = Metric(
    name="cospark.tasks_moved",
    kind=Kind.COUNTER,
    speaker=Speaker.LEADER,
    meaning="tasks that moved from one worker to another, by reason",
    tags=(*_JOB, Tag.REASON),
)
LESSONS_GIVEN_UP: Final = Metric(
    name="cospark.lessons_given_up",
    kind=Kind.COUNTER,
    speaker=Speaker.LEADER,
    meaning="learner tasks given up because the warm-up failed or took too long",
    tags=_JOB,
)

STARTED: Final = _task("cospark.tasks_started", "attempts that started", (_WORKER, "task-startup-attempts-total"))
FINISHED: Final = _task("cospark.tasks_finished", "tasks that finished")
ATTEMPTS_FAILED: Final = _task("cospark.attempts_failed", "attempts that failed")
RETRIED: Final = _task("cospark.tasks_retried", "failed attempts that are followed by another one")
FAILED: Final = _task("cospark.tasks_failed", "tasks that failed for good")
STALLED: Final = _task("cospark.tasks_stalled", "running streams that have not moved for longer than expected")
STOPPED: Final = _task("cospark.tasks_stopped", "running tasks that were stopped, to run again elsewhere or later")
SPARK_DEATHS: Final = _task("cospark.spark_deaths", "attempts during which Spark ended")
PROCESS_DEATHS: Final = _task(
    "cospark.process_deaths", "attempts during which the worker's process ended, or lost its lease"
)
CONFLICTS: Final = _task(
    "cospark.task_conflicts", "attempts that ended because another writer used the task's checkpoint or table"
)
STOOD_STILL: Final = _time("cospark.task_stood_still", "from the stop of a task to its next start")
TASK_TIME: Final = _time("cospark.task_time", "how long the successful attempt of a task took")
PLANNER_TIME: Final = _time("cospark.planner_time", "how long the successful attempt of a planner took")
LEASES_ENDED: Final = Metric(
    name="cospark.leases_ended",
    kind=Kind.COUNTER,
    speaker=Speaker.OWNER,
    meaning="times that a worker had to stop all its tasks as others may get them; orderly leaves do not count",
    tags=(Tag.GROUP, Tag.REASON),
)
COORDINATOR_FAILURES: Final = Metric(
    name="cospark.coordinator_failures",
    kind=Kind.COUNTER,
    speaker=Speaker.COORDINATOR,
    meaning="times that a coordinator could not serve any shard of the declarative groups; it tries again",
    tags=(),
)
SHARD_UNSERVED_S: Final = Metric(
    name="cospark.shard.unserved_seconds",
    kind=Kind.GAUGE,
    speaker=Speaker.COORDINATOR,
    meaning="how long a shard of the declarative groups has not been served; 0 if it is",
    tags=(Tag.SHARD,),
)

DECLARED: Final = (
    MEMBERS, EPOCH, CONVERGED, UNCONVERGED_S, SINCE_REBALANCE_S, LOST_TASKS, SLOTS, BUSY_SLOTS, LACKING_SLOTS,
    SPARE_SLOTS, MISSING_SLOTS, JOBS, TASKS, PENDING_AGE_S, FAILING,
    BEHIND, LAG_UNKNOWN, LAST_BATCH_AGE_S, ROWS_PER_S, ROWS_PER_S_IN, LEARNERS, LEARNER_LAG,
    REBALANCES, REBALANCE_TIME, MOVED, LESSONS_GIVEN_UP,
    STARTED, FINISHED, ATTEMPTS_FAILED, RETRIED, FAILED, STALLED, STOPPED, SPARK_DEATHS, PROCESS_DEATHS,
    CONFLICTS, STOOD_STILL, TASK_TIME, PLANNER_TIME, LEASES_ENDED, COORDINATOR_FAILURES, SHARD_UNSERVED_S,
)  # fmt: skip
"""All metrics, in the order of the docs."""
