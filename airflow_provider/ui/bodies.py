"""Checks request bodies. Python's parser accepts more than JSON: NaN, infinities, and half characters. Such values
can't be written to a topic or a database, and not even be quoted in an error.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from fastapi import HTTPException, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY: Final = 1024 * 1024
"""In bytes. Forms that people fill in are far smaller."""


class LimitedBodies:
    """Refuses requests with a large body, however it is sent. FastAPI reads a body before it asks who sent it.

    :param app: gets the requests
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0

        async def receive_some() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > LARGEST_BODY:
                raise HTTPException(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request may have at most {LARGEST_BODY} bytes"
                )
            return message

        await self._app(scope, receive_some, send)


async def is_json(request: Request) -> None:
    """:raises HTTPException: 422 for a body that is not JSON"""
    body = await request.body()
    try:
        if body:
            msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"the request is not JSON: {wrong}") from wrong
