"""Answers that a browser need not be sent twice."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec
from fastapi import Request, Response, status

from airflow_provider.kafka.clock import wall_ms

_MOST: Final = 64
_MOST_BYTES: Final = 32 * 1024 * 1024
_NOW: Final = "X-Cospark-Now"


class Answers:
    """The last answers, so that many who look at the same thing have it made once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def answer(self, request: Request, version: str, make: Callable[[], object]) -> Response:
        """:param version: of what is asked for; the same question with the same version has the same answer
        :param make: makes it
        """
        question = f"{request.url.path}?{request.url.query}#{version}"
        tag = f'"{hashlib.sha256(question.encode()).hexdigest()[:24]}"'
        headers = {"ETag": tag, "Cache-Control": "private, no-cache", _NOW: str(wall_ms())}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
        body = self._get(tag)
        if body is None:
            body = msgspec.json.encode(make())
            self._put(tag, body)
        return Response(body, media_type="application/json", headers=headers)

    def _get(self, tag: str) -> bytes | None:
        with self._lock:
            body = self._made.get(tag)
            if body is not None:
                self._made.move_to_end(tag)
            return body

    def _put(self, tag: str, body: bytes) -> None:
        with self._lock:
            if tag not in self._made:
                self._made[tag] = body
                self._bytes += len(body)
            while len(self._made) > _MOST or self._bytes > _MOST_BYTES:
                _, dropped = self._made.popitem(last=False)
                self._bytes -= len(dropped)
