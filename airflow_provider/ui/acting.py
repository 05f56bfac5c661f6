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
from airflow_provider.protocol.model import WorkerId
from airflow_provider.records import ControlAction, ControlRecord
from airflow_provider.topics import one_shot
from airflow_provider.topics.errors import TopicError
from airflow_provider.ui.rights import may_act
from airflow_provider.ui.world import World, world_of

log: Final = logging.getLogger(__name__)

router: Final = APIRouter(prefix="/api/act")

By = Annotated[str, Depends(may_act)]
ItsWorld = Annotated[World, Depends(world_of)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryFailed:
    """:param tasks: the indexes of some; None: all that have failed"""

    conn: str
    group: str
    job: str
    tasks: list[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveJob:
    conn: str
    group: str
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskWorker:
    conn: str
    group: str
    worker: str
    action: ControlAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """:param words: what has been done, for people"""

    words: str


Act = RetryFailed | RemoveJob | AskWorker


@router.post("/retry")
def retry_failed(act: RetryFailed, by: By, world: ItsWorld) -> Done:
    def retry(settings: KafkaSettings) -> str:
        indexes = None if act.tasks is None else frozenset(act.tasks)
        return retried_in_words(act.job, one_shot.retry_failed(settings, act.group, act.job, indexes, by=by))

    return _done("retry", act, by, world, retry)


@router.post("/remove")
def remove_job(act: RemoveJob, by: By, world: ItsWorld) -> Done:
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


def _done(name: str, act: Act, by: str, world: World, do: Callable[[KafkaSettings], str]) -> Done:
    settings = world.settings(act.conn)
    world.note(f"cospark_{name}", by, json.dumps(asdict(act)))  # first: nothing is done that nobody can look up
    try:
        words = do(settings)
    except TopicError as failed:
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, str(failed)) from failed
    log.info("%s on the page of groups: %s (group %r)", by, words, act.group)
    return Done(words=words)
