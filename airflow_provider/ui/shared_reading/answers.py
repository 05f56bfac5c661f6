"""Caches answers, so that many viewers share one, and an unchanged one is not sent twice."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

import msgspec
from fastapi import HTTPException, Request, Response, status

from airflow_provider.kafka.clock import wall_ms

_MOST: Final = 64
_MOST_BYTES: Final = 32 * 1024 * 1024
_NOW: Final = "X-Cospark-Now"
_AGAIN_S: Final = 1


class _Made(NamedTuple):
    tag: str
    body: bytes


class Question(NamedTuple):
    """What is asked for.

    :param about: the settings of all connections from which it is answered: only who may see these is told the same
    """

    request: Request
    about: Hashable

    @property
    def address(self) -> str:
        return f"{self.request.url.path}?{self.request.url.query}"

    @property
    def key(self) -> Hashable:
        return self.about, self.address

    def tag(self, version: str) -> str:
        return f'"{hashlib.sha256(f"{self.address}#{version}".encode()).hexdigest()[:24]}"'


class Answers:
    """The last answer to each question, which is made once for all who look at the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[Hashable, _Made] = OrderedDict()
        self._bytes = 0

    def known(self, question: Question, version: str) -> Response | None:
        """The answer, if it is in the cache or the browser has it.

        :param version: of what is asked for; the same question with the same version has the same answer
        """
        tag, request = question.tag(version), question.request
        if request.headers.get("if-none-match") == tag:
            return _response(request, _Made(tag, b""))
        made = self._get(question.key)
        return _response(request, made) if made is not None and made.tag == tag else None

    def answer(self, question: Question, version: str, make: Callable[[], object]) -> Response:
        """The answer, from the cache or made now.

        :param make: makes it
        """
        known = self.known(question, version)
        if known is not None:
            return known
        made = _Made(question.tag(version), msgspec.json.encode(make()))
        self._put(question.key, made)
        return _response(question.request, made)

    def last(self, question: Question) -> Response:
        """The last answer to the question, for users who can't wait for the present one.

        :raises HTTPException: 503, to ask again soon, if there is none
        """
        made = self._get(question.key)
        if made is None:
            raise HTTPException(
                status.HTTP_503_SERVICE_UNAVAILABLE,
                "many users look at this page now: try again",
                headers={"Retry-After": str(_AGAIN_S), _NOW: str(wall_ms())},
            )
        return _response(question.request, made)

    def _get(self, question: Hashable) -> _Made | None:
        with self._lock:
            made = self._made.get(question)
            if made is not None:
                self._made.move_to_end(question)
            return made

    def _put(self, question: Hashable, made: _Made) -> None:
        with self._lock:
            before = self._made.pop(question, None)
            self._made[question] = made
            self._bytes += len(made.body) - (0 if before is None else len(before.body))
            while len(self._made) > _MOST or self._bytes > _MOST_BYTES:
                _, dropped = self._made.popitem(last=False)
                self._bytes -= len(dropped.body)


def _response(request: Request, made: _Made) -> Response:
    headers = {"ETag": made.tag, "Cache-Control": "private, no-cache", _NOW: str(wall_ms())}
    if request.headers.get("if-none-match") == made.tag:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(made.body, media_type="application/json", headers=headers)
