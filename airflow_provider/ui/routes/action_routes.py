"""The routes that act on jobs, workers and groups, by the same functions as the hook and the command line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, HTTPException, status

from airflow_provider.integration import one_shot
from airflow_provider.integration.operator_parameters.parameters import worker_name
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import RETRIER, STEERER, STOPPER
from airflow_provider.state.operations.notes import of_leaving
from airflow_provider.state.operations.operations import (
    HaltJob,
    Rebalance,
    RestartJob,
    ResumeJob,
    SetLogLevel,
    StopTasks,
)
from airflow_provider.state.records import ControlAction, ControlRecord, Halt, LogLevel
from airflow_provider.state.views.presence import may_be_asked
from airflow_provider.state.views.slots.scaling import count
from airflow_provider.state.views.task_progress.retrying import retried_in_words
from airflow_provider.ui.access.rights import may_steer
from airflow_provider.ui.access.visits import Visit
from airflow_provider.ui.routes.audited_action import Done, done, steer
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import WorkerId

_MOST_NAMED: Final = 10

router: Final = APIRouter(prefix="/api/act")

Steering = Annotated[Visit, Depends(may_steer)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToGroup:
    """An action on a group."""

    conn: str
    group: str

    def noted(self) -> dict[str, Any]:
        """What the audit log gets, as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToJob(ToGroup):
    """An action on a job.

    :param defined_at: the offset of the definition that the user looks at
    """

    job: str
    defined_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTasks(ToJob):
    """An action on a job or some of its tasks.

    :param tasks: the indexes of some tasks; None: the whole job
    """

    tasks: list[int] | None = None

    @property
    def indexes(self) -> frozenset[int] | None:
        return None if self.tasks is None else frozenset(self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskWorker(ToGroup):
    """A request to a worker to leave."""

    worker: str
    action: ControlAction


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleGroup(ToGroup):
    """A request to scale a group down.

    :param workers: how many stay
    """

    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelOf(ToGroup):
    """A request to set a log level.

    :param level: None: reset it
    :param worker: empty: in all workers
    """

    logger: str
    level: LogLevel | None = None
    worker: str = ""


@router.post("/pause")
def pause_job(act: ToJob, visit: Steering) -> Done:
    return steer("pause", act, visit, HaltJob(job=act.job, defined_at=act.defined_at, halt=Halt.PAUSED))


@router.post("/stop")
def stop_job(act: ToTasks, visit: Steering) -> Done:
    some = act.indexes
    if some is None:
        return steer("stop", act, visit, HaltJob(job=act.job, defined_at=act.defined_at, halt=Halt.STOPPED))
    return steer("stop", act, visit, StopTasks(job=act.job, defined_at=act.defined_at, tasks=some))


@router.post("/resume")
def resume_job(act: ToJob, visit: Steering) -> Done:
    return steer("resume", act, visit, ResumeJob(job=act.job, defined_at=act.defined_at))


@router.post("/restart")
def restart_job(act: ToTasks, visit: Steering) -> Done:
    return steer("restart", act, visit, RestartJob(job=act.job, defined_at=act.defined_at, tasks=act.indexes))


@router.post("/retry")
def retry_failed(act: ToTasks, visit: Steering) -> Done:
    def retry(settings: KafkaSettings) -> str:
        retried = one_shot.act(
            settings,
            act.group,
            RETRIER,
            lambda topics: topics.retry_failed(act.job, act.indexes, by=visit.by, defined_at=act.defined_at),
        )
        return retried_in_words(act.job, retried)

    return done("retry", act, visit, retry)


@router.post("/remove")
def remove_job(act: ToJob, visit: Steering) -> Done:
    def remove(settings: KafkaSettings) -> str:
        known = one_shot.act(
            settings,
            act.group,
            STEERER,
            lambda topics: topics.remove(act.job, by=visit.by, defined_at=act.defined_at),
        )
        return f"job {act.job} is removed" if known else f"the group has no job {act.job} any more"

    return done("remove", act, visit, remove)


@router.post("/ask")
def ask_worker(act: AskWorker, visit: Steering) -> Done:
    watched = visit.group(act.conn, act.group)
    seen = watched.seen() if watched else None
    if seen is None or not seen.whole or act.worker not in may_be_asked(seen.status):
        raise HTTPException(status.HTTP_409_CONFLICT, f"the group has no worker {act.worker!r} now")

    def ask(settings: KafkaSettings) -> str:
        wish = ControlRecord(worker=WorkerId(act.worker), action=act.action, at_ms=wall_ms(), by=visit.by)
        one_shot.act(settings, act.group, STOPPER, lambda topics: topics.publish_control(wish))
        notes = of_leaving((wish.worker,), act.action, seen.jobs, seen.status, stop_now="stop it")
        return "; ".join((f"worker {act.worker} is asked to {act.action.value}", *notes))

    return done("ask", act, visit, ask)


@router.post("/scale")
def scale_group(act: ScaleGroup, visit: Steering) -> Done:
    def scale(settings: KafkaSettings) -> str:
        goal = count(act.workers)
        plan = one_shot.act(settings, act.group, STOPPER, lambda topics: topics.scale_down(goal, by=visit.by))
        return f"asked to leave: {in_short(plan.asked, most=_MOST_NAMED)} ({plan.in_words}); {plan.what_follows}"

    return done("scale", act, visit, scale)


@router.post("/rebalance")
def rebalance_group(act: ToGroup, visit: Steering) -> Done:
    return steer("rebalance", act, visit, Rebalance())


@router.post("/level")
def set_level(act: LevelOf, visit: Steering) -> Done:
    try:
        worker = WorkerId(worker_name(act.worker)) if act.worker else None
    except ValueError as wrong:  # nobody could read a record with such a key, and it would stay for ever
        raise HTTPException(status.HTTP_409_CONFLICT, str(wrong)) from wrong
    return steer("level", act, visit, SetLogLevel(logger=act.logger, level=act.level, worker=worker))
