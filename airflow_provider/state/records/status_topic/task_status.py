"""The record of a task in the status topic: whether it runs, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final

import msgspec

from airflow_provider.state.records.envelope import COUNT, TEXT, check_depth, convert, encode_step
from airflow_provider.state.records.jobs_topic.checks import check_job_name
from airflow_provider.state.records.jobs_topic.jobs import TaskKind
from airflow_provider.state.records.plain import Plain
from airflow_provider.state.records.status_topic.costs import RUNS_KEPT
from airflow_provider.state.records.status_topic.counted import Counted
from airflow_provider.state.records.status_topic.spark_work import SparkWork
from airflow_provider.state.records.status_topic.stream_lag import StreamLag
from airflow_provider.state.records.status_topic.stream_progress import StreamProgress
from airflow_provider.state.records.status_topic.task_failure import TaskFailure
from airflow_provider.state.records.status_topic.written import WrittenAsset
from airflow_provider.state.records.times import ago_in_words, since_in_words
from airflow_provider.values.model import Epoch, TaskId, WorkerId

_LONGEST_SESSION_MS: Final = 2**31 - 1
"""A session timeout is an int32 on the wire."""
MOST_FAILED_ON: Final = 2
"""A task that has failed on two workers is not tried on a third one for that: it is to blame itself."""
_FREE: Final = ("after", "handle", "progress", "result", "wrote")
"""Fields of a task's record with other values than this package's own texts and whole numbers."""
_OF_JOBS: Final = ("result", "handle", "after")
"""Fields with any JSON value."""
_RARE: Final = {
    **dict.fromkeys(("forgiven", "conflicts", "process_deaths", "died_alone", "acquitted"), 0),
    **dict.fromkeys(("conflict_since_ms", "ended_after_batch", "after", "read_to"), None),
    **dict.fromkeys(("stalled_since_ms", "begins_ms"), None),
    **dict.fromkeys(("alone", "kept", "last_try", "waits_for_trial"), False),
    "runs_on": "",
}
"""Fields that are only written if they differ from this."""


class TaskState(str, Enum):
    """The state of a task, written by the worker that owns it."""

    UNASSIGNED = "unassigned"
    """Configured, but no worker has it or has reported it for this run. Only written for a task that has failed for
    good and is to be tried again.
    """
    PENDING = "pending"
    """Assigned; waits for a free slot, or for its next attempt (``error`` is then that of the last one). Usually not
    written: see :func:`~airflow_provider.state.views.task_progress.task_places.effective_status`.
    """
    RUNNING = "running"
    """Started on the worker, or on the Spark side if it has a handle."""
    STALLED = "stalled"
    """A running stream that has not moved for longer than expected. Nobody writes this: people see it instead of
    *running* (:mod:`~airflow_provider.state.views.task_progress.shown_tasks`).
    """
    UNWATCHED = "unwatched"
    """Was running, and no worker of the group watches it any more. A detached query may still run; any other task has
    ended with its worker, or is about to. Nobody writes this: people see it instead of *running*
    (:mod:`~airflow_provider.state.views.task_progress.shown_tasks`).
    """
    FINISHED = "finished"
    """Ended by itself. Not assigned again in this run."""
    FAILED = "failed"
    """Failed for good: its retries are used up. It runs again in this run only if somebody asks for that. Its worker
    may keep it until then.
    """
    STOPPED = "stopped"
    """Stopped by its worker: because it moves, the worker leaves or the lease has ended, and then it will be assigned
    again; or because somebody has stopped it, and then it is assigned again when somebody resumes it.
    """
    PAUSED = "paused"
    """Not running because its job is paused. Nobody writes this: people see it instead of the states above
    (:mod:`~airflow_provider.state.views.task_progress.shown_tasks`).
    """

    @property
    def final(self) -> bool:
        """Whether the task needs no worker any more in this run."""
        return self in (TaskState.FINISHED, TaskState.FAILED)

    @property
    def runs(self) -> bool:
        """Whether an attempt of the task is known to be under way."""
        return self in (TaskState.RUNNING, TaskState.STALLED)

    @property
    def may_run(self) -> bool:
        """Whether an attempt of the task is under way, or was when it was last heard of."""
        return self.runs or self is TaskState.UNWATCHED


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointClaim(Plain):
    """A task's claim of a checkpoint whose name is not the task's own.

    :param key: the checkpoint's name in its job
    :param process: the identity of the worker's process, as in the worker's own record
    :param number: tells the claims of a process apart
    :param lease_ms: how long that process may continue after another one has taken its worker's name
    """

    key: Annotated[str, TEXT]
    process: Annotated[str, TEXT]
    number: Annotated[int, COUNT]
    lease_ms: Annotated[int, msgspec.Meta(ge=0, le=_LONGEST_SESSION_MS)]


class TaskStatus(msgspec.Struct, Counted, frozen=True, kw_only=True):
    """The last statement about a task or planner. Each worker reads those of all others, so it is one of msgspec's
    values, which are made ten times as fast as data classes.

    :param epoch: the epoch of the assignment under which its worker wrote this; an older epoch never wins
    :param run_key: the run of the job that this is about
    :param fingerprint: the fingerprint of what ran (:class:`~airflow_provider.state.records.TaskWork`); empty: unknown,
        the run key alone decides
    :param attempt: 1 for the first start; one more with each other start, also after a move or a lost worker. Within an
        epoch, no record of an attempt replaces the record of its end
    :param failures: how many of the attempts have failed; these use up the job's retries
    :param forgiven: how many of these no longer count, because the stream has gone well since
    :param spark_deaths: how often Spark has ended under an attempt; these use up no retries
    :param process_deaths: how often its worker's process has ended, or lost its lease, under an attempt; the same
    :param alone: for a running task: it is on trial with no other task (``worker/tasks/runs/spark_deaths/suspects.py``)
    :param died_alone: how often in a row Spark or the process has ended since it was alone on trial at such an end
    :param acquitted: of how many deaths of Spark it has been acquitted
    :param conflicts: how many attempts in a row another writer has ended, which uses the task's checkpoint or table;
        these use up no retries
    :param conflict_since_ms: when the first of these began (wall clock, milliseconds since 1970)
    :param ended_after_batch: for a stream: the last batch before the last attempt that ended badly; None: unknown
    :param started_at_ms: when this attempt started (wall clock, milliseconds since 1970)
    :param finished_at_ms: when the attempt ended, in whatever way (wall clock, milliseconds since 1970)
    :param retry_at_ms: start the next attempt no sooner, on any worker (wall clock, milliseconds since 1970)
    :param error: the error of the last attempt that failed
    :param result: what a finished task returned, any JSON value
    :param handle: the handle of its query, if this may outlive the worker's process; any JSON value. For a waiting
        task: the handle of the query before, which is not known to have ended
    :param after: the handle of the query before this attempt, which has ended
    :param read_to: for a task with a handle: how far the jobs topic had been read when the attempt was to begin.
        Whoever adopts the query still has to do what was requested after this offset
    :param claim: the claim of this attempt's checkpoint; None: the checkpoint is named by the task's index
    :param progress: for a stream: the last batch that this attempt has reported
    :param wrote: the assets that a finished task says it has written
    :param work: for any other running task: its last reported progress
    :param took_before_ms: how long the task took in the last runs of its job before this one, the newest last
    :param kept: for a task that has failed for good: its worker keeps it, and tries it again when somebody asks for
        that
    :param failed_on: the workers on which its last attempts have failed, the newest last, at most ``MOST_FAILED_ON``
    :param last_try: whether its retries are used up, and it has one try more elsewhere
    :param stalled_since_ms: for a running stream that has not moved for longer than expected: when it last did (wall
        clock, milliseconds since 1970)
    :param waits_for_trial: for a pending task: whether it is a suspect that starts again only on trial
    :param begins_ms: for a pending suspect on such a server: when it was started (wall clock, milliseconds since 1970);
        its code is called at any moment
    :param runs_on: the URL of the Spark Connect server on which its worker runs tasks, and others may, too; empty: its
        worker has a Spark of its own, or none
    """

    task: TaskId
    state: TaskState
    epoch: Annotated[Epoch, COUNT]
    worker: Annotated[WorkerId, TEXT]
    run_key: Annotated[str, TEXT] = ""
    kind: TaskKind = TaskKind.BATCH
    fingerprint: Annotated[str, TEXT] = ""
    attempt: Annotated[int, COUNT] = 1
    failures: Annotated[int, COUNT] = 0
    forgiven: Annotated[int, COUNT] = 0
    spark_deaths: Annotated[int, COUNT] = 0
    process_deaths: Annotated[int, COUNT] = 0
    alone: bool = False
    died_alone: Annotated[int, COUNT] = 0
    acquitted: Annotated[int, COUNT] = 0
    conflicts: Annotated[int, COUNT] = 0
    conflict_since_ms: Annotated[int, COUNT] | None = None
    ended_after_batch: Annotated[int, COUNT] | None = None
    started_at_ms: Annotated[int, COUNT] | None = None
    finished_at_ms: Annotated[int, COUNT] | None = None
    retry_at_ms: Annotated[int, COUNT] | None = None
    error: TaskFailure | None = None
    result: Any = None
    handle: Any = None
    after: Any = None
    read_to: Annotated[int, COUNT] | None = None
    claim: CheckpointClaim | None = None
    progress: StreamProgress | None = None
    took_before_ms: tuple[Annotated[int, COUNT], ...] = ()
    wrote: tuple[WrittenAsset, ...] = ()
    work: SparkWork | None = None
    kept: bool = False
    failed_on: tuple[Annotated[WorkerId, TEXT], ...] = ()
    last_try: bool = False
    stalled_since_ms: Annotated[int, COUNT] | None = None
    waits_for_trial: bool = False
    begins_ms: Annotated[int, COUNT] | None = None
    runs_on: Annotated[str, TEXT] = ""

    @property
    def lag(self) -> StreamLag | None:
        """How far it is behind; None: it is no running stream."""
        is_stream = self.kind is TaskKind.STREAMING or self.progress is not None
        if self.task.is_planner or not is_stream or not self.state.runs:
            return None
        return StreamLag.of(self.progress, stalled=self.stalled_since_ms is not None)

    def progress_in_words(self, now_ms: int | None = None) -> str:
        """What its last batch was, or what its Spark jobs have done; empty if nothing was reported.

        :param now_ms: wall clock, to say for how long it is stalled or unwatched; None: say since when
        """
        amiss = ""
        if self.state is TaskState.UNWATCHED:
            amiss = f"no worker watches it, last heard of {ago_in_words(self.heard_ms, now_ms)}"
        elif self.stalled_since_ms is not None and self.state.runs:
            amiss = f"no batch has ended {since_in_words(self.stalled_since_ms, now_ms)}"
        far = self.work.in_words() if self.work else ""
        far = self.progress.batch_in_words if self.progress else far
        return ", ".join(filter(None, (amiss, far)))

    def how_far(self, now_ms: int) -> str:
        """Its progress and its lag in words.

        :param now_ms: wall clock, milliseconds since 1970
        """
        lag = self.lag
        return ", ".join(filter(None, (self.progress_in_words(now_ms), lag.in_words(now_ms) if lag else "")))

    @property
    def lives_on(self) -> bool:
        """Whether it has a detached query that may be running, whether or not a worker is there. The query is found by
        the handle.
        """
        return self.handle is not None and (self.state is TaskState.PENDING or self.state.may_run)

    @property
    def server(self) -> str:
        """The Spark Connect server on which its detached query runs, or may run, or the kind of the cluster of its
        driver, for people; empty: it has neither.
        """
        detached = self.state.may_run and isinstance(self.handle, dict)
        server = self.handle.get("cluster" if is_driver(self.handle) else "server") if detached else None
        return server.partition("/;")[0] if isinstance(server, str) else ""

    def knows_of(self, before: TaskStatus) -> bool:
        """Whether the writer of this record knew of the query in ``before``: both are about the same query, or this one
        says that it comes after it.
        """
        return _place(before.handle) in (_place(self.handle), _place(self.after))

    def says_gone(self, attempt: int, handle: Any) -> bool:
        """Whether it says that the query of this attempt, with this handle, no longer runs."""
        return self.state is TaskState.STOPPED and self.attempt == attempt and _place(self.handle) == _place(handle)

    @property
    def standing_claim(self) -> CheckpointClaim | None:
        """Its claim of a checkpoint that is in use, or may be at any moment."""
        return self.claim if self.state in (TaskState.PENDING, TaskState.RUNNING) else None

    @property
    def heard_ms(self) -> int:
        """When its worker last wrote something new about it (wall clock, milliseconds since 1970); 0: never."""
        return max(self.started_at_ms or 0, self.finished_at_ms or 0, self.progress.at_ms if self.progress else 0)

    @property
    def moved_ms(self) -> int | None:
        """When its stream is known to have moved (wall clock, milliseconds since 1970); None: it has not begun."""
        return self.started_at_ms if self.progress is None else self.progress.at_ms

    @property
    def took_ms(self) -> int | None:
        """How long the attempt took; None if it has not ended, or this is unknown."""
        if self.started_at_ms is None or self.finished_at_ms is None or self.state.may_run:
            return None
        return max(0, self.finished_at_ms - self.started_at_ms)

    @property
    def times_ms(self) -> tuple[int, ...]:
        """How long it took in the last runs that have finished, the newest last, for the next run."""
        took = self.took_ms if self.state is TaskState.FINISHED else None
        return (*self.took_before_ms, *(() if took is None else (took,)))[-RUNS_KEPT:]

    def running_ms(self, wall_ms: int) -> int | None:
        """For how long it has been running; None if it is not running, or this is unknown.

        :param wall_ms: now, milliseconds since 1970
        """
        if not self.state.runs or self.started_at_ms is None:
            return None
        return max(0, wall_ms - self.started_at_ms)

    def is_of(self, run_key: str, fingerprint: str) -> bool:
        """Whether this is about that run of exactly that work."""
        return self.run_key == run_key and self.fingerprint in ("", fingerprint)

    def is_stale(self, known: TaskStatus) -> bool:
        """Whether this record, read after ``known``, must not replace it: it is of an older epoch, of an older attempt
        in the same epoch, or of an attempt that has ended. A leader that mends a record may write it after the end of
        its attempt.
        """
        if self.epoch != known.epoch:
            return self.epoch < known.epoch
        if not known.is_of(self.run_key, self.fingerprint):
            return False
        if self.attempt != known.attempt:
            return self.attempt < known.attempt
        return self._over < known._over or (known.state.final and self != known)

    @property
    def _over(self) -> int:
        """Whether the attempt is over: 0 if not, 1 if it was stopped, 2 if no other attempt is needed. An attempt that
        was stopped before it began is still to come.
        """
        if self.state.final:
            return 2
        return int(self.state is TaskState.STOPPED and self.started_at_ms is not None)

    def to_json(self) -> dict[str, Any]:
        return {
            "task": [self.task.job, self.task.index],
            "state": self.state.value,
            "epoch": self.epoch,
            "worker": self.worker,
            "run_key": self.run_key,
            "kind": self.kind.value,
            "fingerprint": self.fingerprint,
            "attempt": self.attempt,
            "failures": self.failures,
            "spark_deaths": self.spark_deaths,
            "started_at_ms": self.started_at_ms,
            "finished_at_ms": self.finished_at_ms,
            "retry_at_ms": self.retry_at_ms,
            "error": self.error.to_json() if self.error else None,
            "result": self.result,
            "handle": self.handle,
            "claim": self.claim.to_json() if self.claim else None,
            **{name: value for name, usual in _RARE.items() if (value := getattr(self, name)) != usual},
            **({"progress": self.progress.to_json()} if self.progress else {}),
            **({"wrote": [asset.to_json() for asset in self.wrote]} if self.wrote else {}),
            **({"work": self.work.to_json()} if self.work else {}),
            **({"took_before_ms": list(self.took_before_ms)} if self.took_before_ms else {}),
            **({"failed_on": list(self.failed_on)} if self.failed_on else {}),
        }

    def encoded(self) -> bytes:
        """Encode the record's value.

        :raises ValueError: for a result or handle that JSON can't carry
        """
        return self.encoded_with({})[0]

    def encoded_with(self, *more: Mapping[str, str | int]) -> tuple[bytes, ...]:
        """Encode the values of several records that say this and more.

        :param more: further fields of each
        :raises ValueError: for a result or handle that JSON can't carry
        """
        return encode_step(self.to_json(), *more, free=_FREE)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TaskStatus:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        status = convert(data, cls)
        check_job_name(status.task.job)
        for name in _OF_JOBS:
            value = getattr(status, name)
            if value is not None:
                _check_writable(name, value)
        return status


def is_driver(handle: Any) -> bool:
    """Whether it is the handle of a driver on a cluster, and not of a query on a Spark Connect server."""
    return isinstance(handle, dict) and "tag" in handle


def _place(handle: Any) -> Any:
    """The part of a handle that is known before the query starts; of a driver, what is common to its submissions."""
    if is_driver(handle):
        return handle.get("cluster"), handle["tag"]
    if isinstance(handle, dict) and "session_id" in handle:
        return handle.get("server"), handle["session_id"]
    return handle


def _check_writable(name: str, value: object) -> None:
    """Check a value that a leader may have to write again."""
    try:
        check_depth(value)
    except (TypeError, ValueError) as wrong:
        raise ValueError(f"the field {name!r} can't be written as JSON: {wrong}") from None
