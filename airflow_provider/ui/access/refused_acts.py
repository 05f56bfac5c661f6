"""Notes in Airflow's audit log which actions were refused, to whom: whatever the reason, and wherever it was found."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any, Final

import msgspec
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError

from airflow_provider.ui.world import ItsWorld

log: Final = logging.getLogger(__name__)

_TOLD: Final = ("conn", "group", "job", "worker")
"""What is noted of a request. The rest of it may be secret, and so may be what a refusal quotes of it."""

_LONGEST: Final = 250


async def note_refused(request: Request, user: GetUserDep, world: ItsWorld) -> AsyncIterator[None]:
    """Note the request if it is refused. Depend on this before anything that may refuse it; without a login there is
    nobody to name.
    """
    try:
        yield
    except (HTTPException, RequestValidationError) as refused:
        if request.method == "POST":
            act = request.scope["route"].path.rpartition("/")[2]
            extra = json.dumps(await _told(request) | {"status": _status(refused)})
            try:
                await run_in_threadpool(world.note, f"cospark_{act}_refused", user.get_name(), extra)
            except DBAPIError:
                log.exception("no entry in the audit log says that %r was refused to %s", act, user.get_name())
        raise


def _status(refused: HTTPException | RequestValidationError) -> int:
    return refused.status_code if isinstance(refused, HTTPException) else HTTPStatus.UNPROCESSABLE_ENTITY


async def _told(request: Request) -> dict[str, str]:
    try:
        asked: Any = msgspec.json.decode(await request.body())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    known = asked if isinstance(asked, dict) else {}
    return {name: known[name][:_LONGEST] for name in _TOLD if isinstance(known.get(name), str)}
