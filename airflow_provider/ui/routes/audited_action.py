"""Carries out an action of the page: notes it in Airflow's audit log, does it, and explains a refusal."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fastapi import HTTPException, status
from sqlalchemy.exc import DBAPIError

from airflow_provider.integration import one_shot
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.state.operations.operations import Operation, OperationError
from airflow_provider.state.operations.words import outcome_in_words
from airflow_provider.state.records import JobError
from airflow_provider.state.views.slots.scaling import ScaleError
from airflow_provider.ui.access.visits import Visit
from airflow_provider.ui.world import MOST_ACTS

log: Final = logging.getLogger(__name__)


class Act(Protocol):
    """An action that a user asks for."""

    @property
    def conn(self) -> str: ...

    @property
    def group(self) -> str: ...

    def noted(self) -> dict[str, Any]:
        """What the audit log gets, as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The answer to an action.

    :param words: tells the user what was done
    """

    words: str


def done(name: str, act: Act, visit: Visit, do: Callable[[KafkaSettings], str]) -> Done:
    """Carry out an action.

    :param do: does it, and returns what was done in words
    :raises HTTPException: if it can't be done
    """
    settings, world = visit.settings(act.conn, act.group), visit.world
    try:
        world.note(f"cospark_{name}", visit.by, json.dumps(act.noted()))  # before it is done, so that none is missing
    except DBAPIError as refused:
        raise HTTPException(
            status.HTTP_503_SERVICE_UNAVAILABLE,
            "nothing was done, because Airflow's database did not take the entry in the audit log: try again later",
        ) from refused
    if not world.acts.acquire(blocking=False):
        raise HTTPException(
            status.HTTP_503_SERVICE_UNAVAILABLE,
            f"{MOST_ACTS} other actions are in progress: try again later",
        )
    try:
        words = do(settings)
    except (OperationError, JobError) as refused:
        raise HTTPException(status.HTTP_409_CONFLICT, str(refused)) from refused
    except ScaleError as refused:
        raise HTTPException(status.HTTP_409_CONFLICT, f"group {act.group!r}: {refused}") from refused
    except TopicError as failed:
        raise HTTPException(status.HTTP_502_BAD_GATEWAY, str(failed)) from failed
    finally:
        world.acts.release()
    log.info("%s on the page of groups: %s (group %r)", visit.by, words, act.group)
    return Done(words=words)


def steer(name: str, act: Act, visit: Visit, operation: Operation) -> Done:
    """Carry out an operation. See :func:`done`."""

    def carry_out(settings: KafkaSettings) -> str:
        return outcome_in_words(operation, one_shot.carry_out(settings, act.group, operation, by=visit.by))

    return done(name, act, visit, carry_out)
