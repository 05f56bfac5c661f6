"""What can be done on the page, by the same functions as by hook and command line. Airflow's audit log tells of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, status

from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.ledger.presence import may_be_asked
from airflow_provider.ledger.retrying import retried_in_words
from airflow_provider.ledger.scaling import ScaleError, count
from airflow_provider.operations.operations import HaltJob, JobOperation, OperationError, RestartJob, ResumeJob
from airflow_provider.operations.words import outcome_in_words
from airflow_provider.protocol.model import WorkerId
from airflow_provider.records import ControlAction, ControlRecord, Halt
from airflow_provider.topics import one_shot
from airflow_provider.topics.errors import TopicError
from airflow_provider.ui.rights import may_act
from airflow_provider.ui.world import World, world_of

_MOST_NAMED: Final = 10

log: Final = logging.getLogger(__name__)

router: Final = APIRouter(prefix="/api/act")

By = Annotated[str, Depends(may_act)]
ItsWorld = Annotated[World, Depends(world_of)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToJob:
    conn: str
    group: str
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToTasks:
    """:param tasks: the indexes of some; None: all that it is about"""

    conn: str
    group: str
    job: str
    tasks: list[int] | None = None

    @property
    def indexes(self) -> frozenset[int] | None:
        return None if self.tasks is None else frozenset(self.tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskWorker:
    conn: str
    group: str
    worker: str
    action: ControlAction


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleGroup:
    """:param workers: so many stay"""

    conn: str
    group: str
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """:param words: what has been done, for people"""

    words: str


Act = ToJob | ToTasks | AskWorker | ScaleGroup


@router.post("/pause")
def pause_job(act: ToJob, by: By, world: ItsWorld) -> Done:
    return _steer("pause", act, by, world, HaltJob(job=act.job, halt=Halt.PAUSED))


@router.post("/stop")
def stop_job(act: ToJob, by: By, world: ItsWorld) -> Done:
    return _steer("stop", act, by, world, HaltJob(job=act.job, halt=Halt.STOPPED))


@router.post("/resume")
def resume_job(act: ToJob, by: By, world: ItsWorld) -> Done:
    return _steer("resume", act, by, world, ResumeJob(job=act.job))


@router.post("/restart")
def restart_job(act: ToTasks, by: By, world: ItsWorld) -> Done:
    return _steer("restart", act, by, world, RestartJob(job=act.job, tasks=act.indexes))


@router.post("/retry")
def retry_failed(act: ToTasks, by: By, world: ItsWorld) -> Done:
    def retry(settings: KafkaSettings) -> str:
        return retried_in_words(act.job, one_shot.retry_failed(settings, act.group, act.job, act.indexes, by=by))

    return _done("retry", act, by, world, retry)


@router.post("/remove")
def remove_job(act: ToJob, by: By, world: ItsWorld) -> Done:
    def remove(settings: KafkaSettings) -> str:
        known = one_shot.remove_job(settings, act.group, act.job, by=by)
        return f"job {act.job} is removed" if known else f"there is no job {act.job} any more"

    return _done("remove", act, by, world, remove)


@router.post("/ask")
def ask_worker(act: AskWorker, by: By, world: ItsWorld) -> Done:
    watched = world.group(act.conn, act.group)
    seen = watched.seen() if watched else None
    if seen is None or not seen.whole or act.worker not in may_be_asked(seen.status):
        raise HTTPException(
            status.HTTP_409_CONFLICT, f"there is no worker {act.worker!r} in the group, as far as is known"
        )

    def ask(settings: KafkaSettings) -> str:
        wish = ControlRecord(worker=WorkerId(act.worker), action=act.action, at_ms=wall_ms(), by=by)
        one_shot.send_control(settings, act.group, wish)
        return f"worker {act.worker} is asked to {act.action.value}"

    return _done("ask", act, by, world, ask)


@router.post("/scale")
def scale_group(act: ScaleGroup, by: By, world: ItsWorld) -> Done:
    def scale(settings: KafkaSettings) -> str:
        plan = one_shot.scale_down(settings, act.group, count(act.workers), by=by)
        more = ", ..." if len(plan.asked) > _MOST_NAMED else ""
        return f"asked to leave: {', '.join(plan.asked[:_MOST_NAMED])}{more} ({plan.in_words}); {plan.what_follows}"

    return _done("scale", act, by, world, scale)


def _steer(name: str, act: ToJob | ToTasks, by: str, world: World, operation: JobOperation) -> Done:
    def steer(settings: KafkaSettings) -> str:
        return outcome_in_words(operation, one_shot.carry_out(settings, act.group, operation, by=by))

    return _done(name, act, by, world, steer)


def _done(name: str, act: Act, by: str, world: World, do: Callable[[KafkaSettings], str]) -> Done:
    settings = world.settings(act.conn)
    world.note(f"cospark_{name}", by, json.dumps(asdict(act)))  # first: nothing is done that nobody can look up
    try:
        words = do(settings)
    except OperationError as refused:
        raise HTTPException(status.HTTP_409_CONFLICT, str(refused)) from refused
    except ScaleError as refused:
        raise HTTPException(status.HTTP_409_CONFLICT, f"group {act.group!r}: {refused}") from refused
    except TopicError as failed:
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, str(failed)) from failed
    log.info("%s on the page of groups: %s (group %r)", by, words, act.group)
    return Done(words=words)
