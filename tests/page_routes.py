"""The routes of the page of groups, and questions that any of them understands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from fastapi import FastAPI
from fastapi.routing import APIRoute

from airflow_provider.ui.access.rights import ACTING_HEADER

Route = tuple[str, str]
"""Its method and its path."""

ABOUT_NO_GROUP: Final = frozenset(
    {"/", "/static/{version}/main.js", "/static/main.js", "/drawing/main.js", "/api/find", "/api/groups"}
)
"""The paths of the routes that need no right to any connection. All others are about a group."""
NOBODYS: Final = ("kafka_default", "kafka@gone", "kafka", "kafka@", "@red", "kafka@RED", "kafka@blue@red")
"""Connections that no user of a single team may see, or that there are not."""
_OURS: Final[Mapping[str, str]] = {ACTING_HEADER: "1", "Sec-Fetch-Site": "same-origin"}
_ANY: Final[Mapping[str, Any]] = {
    "group": "etl",
    "job": "job",
    "index": 0,
    "defined_at": 0,
    "worker": "w",
    "action": "stop",
    "workers": 1,
    "logger": "x",
    "entry_point": "jobs:Job",
    "dag_id": "dag_blue",
    "run_id": "r",
}
"""What any route may want to know, except for the connection."""


def routes_of(app: FastAPI) -> list[Route]:
    """All of them, with something in the place of their parameters."""
    return [
        (method, re.sub(r"{name(:path)?}", "main.js", route.path))
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods)
    ]


class Answer(Protocol):
    """What the clients' answers have in common."""

    @property
    def status_code(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def json(self) -> Any: ...


class Browser(Protocol):
    """A client of the page: over HTTP, or in this process."""

    def request(self, method: str, url: str, *, params: Any, json: Any, headers: Any) -> Answer: ...


def ask(browser: Browser, route: Route, conn: str, *, prefix: str = "", **headers: str) -> Answer:
    """Ask about the group ``etl`` as the page itself does.

    :param conn: the name of its connection on the page
    :param prefix: the page's own path
    """
    method, path = route
    asked = {**_ANY, "conn": conn}
    return browser.request(
        method,
        f"{prefix}{path}",
        params=asked if method == "GET" else None,
        json=asked if method == "POST" else None,
        headers={**_OURS, **headers},
    )
