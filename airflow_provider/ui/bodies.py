"""Checks request bodies. Python's parser accepts more than JSON: NaN, infinities, and half characters. Such values
can't be written to a topic or a database, and not even be quoted in an error.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from fastapi import HTTPException, Request


async def is_json(request: Request) -> None:
    """:raises HTTPException: 422 for a body that is not JSON"""
    body = await request.body()
    try:
        if body:
            msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, f"the request is not JSON: {wrong}") from wrong
