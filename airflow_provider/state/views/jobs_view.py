"""The state of a jobs topic. Pure: records go in one by one, snapshots come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.state.records import (
    ALL_WORKERS,
    REMOVED,
    ControlRecord,
    Halt,
    HaltRecord,
    JobDefinition,
    Key,
    KeyKind,
    LevelsRecord,
    LogLevel,
    PlanRecord,
    RebalanceRecord,
    Removal,
    RestartRecord,
    TaskHaltRecord,
    TaskStatus,
    TaskWork,
    UnreadableRecordError,
    decode,
    task_name,
)
from airflow_provider.state.views.placed import Placed, PlacedTask, Restart, Wanted
from airflow_provider.state.views.topic_view import TopicView, put, read_value
from airflow_provider.values.memo import Memo
from airflow_provider.values.model import ConfigOffset, TaskId, Tasks, WorkerId, labelled

_START: Final = ConfigOffset(0)
_OF_THIS_TOPIC: Final = frozenset(
    {
        KeyKind.JOB,
        KeyKind.PLAN,
        KeyKind.CONTROL,
        KeyKind.HALT,
        KeyKind.HALT_TASK,
        KeyKind.RESTART,
        KeyKind.RESTART_TASK,
        KeyKind.LEVELS,
        KeyKind.REBALANCE,
    }
)
_Steering = HaltRecord | TaskHaltRecord | RestartRecord | LevelsRecord | RebalanceRecord
_Content = JobDefinition | Removal | PlanRecord | ControlRecord | _Steering

_REMOVED: Final = f'"{REMOVED}":'.encode()
_MOST_REMOVED: Final = 1_000
"""How many removals are remembered, the newest ones: sooner or later every process has read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsSnapshot:
    """The jobs topic as read up to an offset. Immutable.

    :param offset: the offset after the last record read: the config offset of KIP-415
    :param jobs: the definitions by the job's name
    :param defined_at: the offset of each definition
    :param replaced_at: the offset of the definition that each one has replaced, if it was read
    :param removed_at: the offset of each job's removal, for jobs that were removed last and have not come back
    :param removals: who has removed them and when, if known
    :param plans: the last plan of each job, of its present run or an older one; see :meth:`plan_of`
    :param controls: the last request to each worker that is not fulfilled
    :param asked_at: the offset of each such request
    :param halts: the halted jobs; see :meth:`halt_of`
    :param task_halts: the tasks that were stopped singly; see :meth:`halt_of_task`
    :param restarts: the last restart of each whole job
    :param task_restarts: the last restart of each single task
    :param rebalance: the last request for a round
    :param levels: the levels of the jobs' loggers, by worker, and for all
    :param unreadable: how many records could not be read
    :ivar configured: cached for the last statuses; see :mod:`~airflow_provider.state.views.task_progress.progress`
    :ivar unfinished: the same
    :ivar progress: the progress of jobs, cached for the last status snapshot
    """

    offset: ConfigOffset = _START
    jobs: Mapping[str, JobDefinition] = field(default_factory=dict)
    defined_at: Mapping[str, int] = field(default_factory=dict)
    replaced_at: Mapping[str, int] = field(default_factory=dict)
    removed_at: Mapping[str, int] = field(default_factory=dict)
    removals: Mapping[str, Removal] = field(default_factory=dict)
    plans: Mapping[str, PlanRecord] = field(default_factory=dict)
    controls: Mapping[WorkerId, ControlRecord] = field(default_factory=dict)
    asked_at: Mapping[WorkerId, int] = field(default_factory=dict)
    halts: Mapping[str, Placed] = field(default_factory=dict)
    task_halts: Mapping[TaskId, PlacedTask] = field(default_factory=dict)
    restarts: Mapping[str, Restart] = field(default_factory=dict)
    task_restarts: Mapping[TaskId, Restart] = field(default_factory=dict)
    rebalance: Wanted | None = None
    levels: Mapping[str, LevelsRecord] = field(default_factory=dict)
    unreadable: int = 0
    # A changed copy begins with empty caches.
    configured: Memo[Mapping[TaskId, TaskStatus], Tasks] = field(
        default_factory=Memo, init=False, compare=False, repr=False
    )
    unfinished: Memo[Mapping[TaskId, TaskStatus], TaskId | None] = field(
        default_factory=Memo, init=False, compare=False, repr=False
    )
    progress: Memo[object, dict[str, Any]] = field(default_factory=Memo, init=False, compare=False, repr=False)
    _stateful: Memo[object, frozenset[str]] = field(default_factory=Memo, init=False, compare=False, repr=False)

    @property
    def planned(self) -> int:
        """How many tasks all plans have together, including finished ones."""
        return sum(len(plan.configs) for plan in self.plans.values())

    def plan_of(self, job: str) -> PlanRecord | None:
        """The plan of the job's present run, if there is one. After the job was altered, this is the plan of the
        previous definition until there is a new one.
        """
        definition, plan = self.jobs.get(job), self.plans.get(job)
        return plan if definition and plan and plan.holds_for(definition) else None

    def halt_of(self, job: str) -> HaltRecord | None:
        """The halt of the job; None: it runs. A halt of a removed job does not count for a new one of the same name."""
        if not self.halts:
            return None
        placed, definition = self.halts.get(job), self.jobs.get(job)
        if placed is None or definition is None or placed.offset <= (definition.removal or -1):
            return None
        return placed.record

    def is_paused(self, job: str) -> bool:
        halt = self.halt_of(job)
        return halt is not None and halt.halt is Halt.PAUSED

    def is_stopped(self, job: str) -> bool:
        halt = self.halt_of(job)
        return halt is not None and halt.halt is Halt.STOPPED

    def halt_of_task(self, task: TaskId) -> TaskHaltRecord | None:
        """The halt of this task, as it is planned now; None: it runs when its job does."""
        placed = self.task_halts.get(task)
        work = None if placed is None else self.planned_work(task)
        if placed is None or work is None or placed.offset <= (work.definition.removal or -1):
            return None
        as_it_was = (placed.record.run_key, placed.record.fingerprint)
        return placed.record if as_it_was == (work.definition.run_key, work.fingerprint) else None

    def is_stopped_task(self, task: TaskId) -> bool:
        """Whether the task or its job is stopped, so that no worker may have it."""
        return self.is_stopped(task.job) or self.halt_of_task(task) is not None

    def stopped_tasks(self) -> frozenset[TaskId]:
        return frozenset(task for task in self.task_halts if self.halt_of_task(task) is not None)

    def restart_since(self, task: TaskId, offset: int) -> Restart | None:
        """The last restart of the task that was requested at this offset or later."""
        asked = (self.restarts.get(task.job), self.task_restarts.get(task))
        later = [restart for restart in asked if restart is not None and restart.offset >= offset]
        return max(later, key=lambda restart: restart.offset, default=None)

    def levels_of(self, worker: WorkerId) -> dict[str, LogLevel]:
        """The levels of loggers in this worker. Its own levels override those for all."""
        records = (self.levels.get(ALL_WORKERS), self.levels.get(worker))
        return {logger: level for record in records if record is not None for logger, level in record.levels.items()}

    @property
    def stateful(self) -> frozenset[str]:
        """The jobs whose tasks have something to warm up, according to their present plans."""
        return self._stateful.get(self.plans, self._find_stateful)

    def _find_stateful(self) -> frozenset[str]:
        stateful = (job for job, plan in self.plans.items() if plan.stateful)
        return frozenset(job for job in stateful if self.plan_of(job) is not None)

    @property
    def has_large(self) -> bool:
        """Whether any task may take more than one slot."""
        return any(plan.large for plan in self.plans.values())

    def slots_of(self, task: TaskId) -> int:
        """How many slots of its worker the task wants, according to its present plan. A planner takes none."""
        if task.is_planner:
            return 0
        plan = self.plan_of(task.job)
        return 1 if plan is None else plan.large.get(task.index, 1)

    def name_of(self, task: TaskId) -> str:
        """The name of the task in the plan
        (:func:`~airflow_provider.state.records.jobs_topic.task_names.task_name`).
        """
        plan = None if task.is_planner else self.plan_of(task.job)
        return task_name(plan.configs[task.index]) if plan is not None and task.index < len(plan.configs) else ""

    def label(self, task: TaskId) -> str:
        """The task for people, with its name if it has one."""
        return labelled(task, self.name_of(task))

    def work_of(self, task: TaskId) -> TaskWork | None:
        """What a worker that is assigned ``task`` must run; None: the task is not configured."""
        return None if self.is_stopped_task(task) else self.planned_work(task)

    def planned_work(self, task: TaskId) -> TaskWork | None:
        """The same, also for a task that is stopped."""
        definition = self.jobs.get(task.job)
        if definition is None:
            return None
        if task.is_planner:
            return TaskWork(
                task=task, definition=definition, config=definition.config, fingerprint=definition.fingerprint
            )
        plan = self.plan_of(task.job)
        if plan is None or task.index >= len(plan.configs):
            return None
        return TaskWork(
            task=task,
            definition=definition,
            config=plan.config_of(task.index),
            fingerprint=plan.fingerprints[task.index],
            weight=plan.weight_of(task.index),
        )


def _steering(key: Key, value: bytes) -> _Steering:
    match key.kind:
        case KeyKind.LEVELS:
            return read_value(value, LevelsRecord.from_json, lambda levels: levels.worker, key.name)
        case KeyKind.HALT:
            return read_value(value, HaltRecord.from_json, lambda halt: halt.job, key.name)
        case KeyKind.HALT_TASK:
            return read_value(value, TaskHaltRecord.from_json, lambda halt: TaskId(halt.job, halt.index), key.task)
        case KeyKind.REBALANCE:
            return RebalanceRecord.from_json(decode(value))
        case _:
            named = key.name, (None if key.kind is KeyKind.RESTART else key.index)
            return read_value(value, RestartRecord.from_json, lambda restart: (restart.job, restart.index), named)


class JobsView(TopicView[JobsSnapshot]):
    """Builds a :class:`JobsSnapshot` from the records of a jobs topic."""

    def _clear(self) -> None:
        self._jobs: dict[str, JobDefinition] = {}
        self._defined_at: dict[str, int] = {}
        self._replaced_at: dict[str, int] = {}
        self._removed_at: dict[str, int] = {}
        self._removals: dict[str, Removal] = {}
        self._plans: dict[str, PlanRecord] = {}
        self._controls: dict[WorkerId, ControlRecord] = {}
        self._asked_at: dict[WorkerId, int] = {}
        self._halts: dict[str, Placed] = {}
        self._task_halts: dict[TaskId, PlacedTask] = {}
        self._rebalance: Wanted | None = None
        self._restarts: dict[str, Restart] = {}
        self._task_restarts: dict[TaskId, Restart] = {}
        self._levels: dict[str, LevelsRecord] = {}

    def _parse(self, key: Key, value: bytes | None) -> _Content | None:
        if key.kind not in _OF_THIS_TOPIC:
            raise UnreadableRecordError(f"a record of kind {key.kind.value!r} does not belong in a jobs topic")
        if value is None:
            return None
        if key.kind is KeyKind.JOB:
            if _REMOVED in value and (removed := decode(value).get(REMOVED)) is not None:
                return Removal.from_json(removed)
            return read_value(value, JobDefinition.from_json, lambda job: job.name, key.name)
        if key.kind is KeyKind.PLAN:
            return read_value(value, PlanRecord.from_json, lambda plan: plan.job, key.name)
        if key.kind is KeyKind.CONTROL:
            return read_value(value, ControlRecord.from_json, lambda wish: wish.worker, WorkerId(key.name))
        return _steering(key, value)

    def _put(self, key: Key, content: Any) -> None:
        match key.kind:
            case KeyKind.JOB if isinstance(content, Removal):
                self._put(key, None)
                self._removals[key.name] = content
            case KeyKind.JOB:
                if content is not None or key.name in self._jobs:
                    self._removals.pop(key.name, None)  # else this is the tombstone after its last record
                put(self._jobs, key.name, content)
                put(self._replaced_at, key.name, None if content is None else self._defined_at.get(key.name))
                put(self._defined_at, key.name, None if content is None else self._offset)
                self._removed_at.pop(key.name, None)
                if content is None:
                    self._note_removal(key.name)
            case KeyKind.PLAN:
                put(self._plans, key.name, content)
            case KeyKind.CONTROL:
                worker = WorkerId(key.name)
                put(self._controls, worker, content)
                put(self._asked_at, worker, None if content is None else self._offset)
            case _:
                self._put_steering(key, content)

    def _put_steering(self, key: Key, content: Any) -> None:
        match key.kind:
            case KeyKind.LEVELS:
                put(self._levels, key.name, content)
            case KeyKind.HALT:
                put(self._halts, key.name, None if content is None else Placed(content, self._offset))
            case KeyKind.HALT_TASK:
                put(self._task_halts, key.task, None if content is None else PlacedTask(content, self._offset))
            case KeyKind.REBALANCE:
                self._rebalance = None if content is None else Wanted(content.by, self._offset)
            case KeyKind.RESTART:
                put(self._restarts, key.name, None if content is None else Restart(content.by, self._offset))
            case KeyKind.RESTART_TASK:
                put(self._task_restarts, key.task, None if content is None else Restart(content.by, self._offset))

    def _note_removal(self, job: str) -> None:
        self._removed_at[job] = self._offset
        if len(self._removed_at) > _MOST_REMOVED:
            oldest = next(iter(self._removed_at))
            del self._removed_at[oldest]
            self._removals.pop(oldest, None)

    def _take_snapshot(self) -> JobsSnapshot:
        return JobsSnapshot(
            offset=ConfigOffset(self.offset),
            jobs=MappingProxyType(dict(self._jobs)),
            defined_at=MappingProxyType(dict(self._defined_at)),
            replaced_at=MappingProxyType(dict(self._replaced_at)),
            removed_at=MappingProxyType(dict(self._removed_at)),
            removals=MappingProxyType(dict(self._removals)),
            plans=MappingProxyType(dict(self._plans)),
            controls=MappingProxyType(dict(self._controls)),
            asked_at=MappingProxyType(dict(self._asked_at)),
            halts=MappingProxyType(dict(self._halts)),
            task_halts=MappingProxyType(dict(self._task_halts)),
            rebalance=self._rebalance,
            restarts=MappingProxyType(dict(self._restarts)),
            task_restarts=MappingProxyType(dict(self._task_restarts)),
            levels=MappingProxyType(dict(self._levels)),
            unreadable=self._unreadable,
        )
