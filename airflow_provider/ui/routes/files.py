"""The static files of the page. All are served from here."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Request, Response, status

from airflow_provider.ui.access.rights import Seeing, can_define, can_steer
from airflow_provider.ui.access.visits import Visit
from airflow_provider.ui.routes import bokeh_scripts

router: Final = APIRouter()

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""Only our own scripts are allowed, and none in a document. Styles are allowed inline, as bokeh writes some."""

_ASK_AGAIN: Final = "private, no-cache"
_FOR_EVER: Final = "private, max-age=31536000, immutable"

_FOLDER: Final = Path(__file__).parents[1] / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@router.get("/")
def page(
    request: Request,
    visit: Seeing,
    steers: Annotated[Visit, Depends(can_steer)],
    defines: Annotated[Visit, Depends(can_define)],
    conn: str | None = None,
    group: str | None = None,
) -> Response:
    """The document. It says what this user may do, and what is missing, so the first view needs no other request.

    It also begins to read the group in the address, which the scripts ask for as soon as they run.
    """
    if conn and group:
        with suppress(HTTPException):  # which the scripts are told
            visit.group(conn, group)
    missing = "" if bokeh_scripts.script(bokeh_scripts.SCRIPTS[0]) else bokeh_scripts.HOW_TO_GET_IT
    index = Template((_FOLDER / "index.html").read_text())
    text = index.substitute(
        version=_version(),
        steers="1" if steers.does else "",
        defines="1" if defines.does else "",
        drawing=escape(missing),
    )
    content = text.encode()
    return _unless_known(request, content, _tag(content), _TYPES[".html"], _ASK_AGAIN)


@router.get("/static/{version}/{name:path}")
def static(request: Request, version: str, name: str) -> Response:
    """A file of the page.

    :param version: of all these files together; while it is the same, a browser need not ask again
    """
    path = _files().get(name)
    return _file(request, path, _FOR_EVER if version == _version() else _ASK_AGAIN)


@router.get("/static/{name}")
def shown_by_airflow(request: Request, name: str) -> Response:
    """An icon, as Airflow's own document requests it, without a version."""
    return _file(request, _files().get(name))


@router.get("/drawing/{name}")
def drawn_by(request: Request, name: str) -> Response:
    path = bokeh_scripts.script(name)
    if path is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, bokeh_scripts.HOW_TO_GET_IT)
    return _file(request, path)


@cache
def _files() -> dict[str, Path]:
    return {path.relative_to(_FOLDER).as_posix(): path for path in _FOLDER.rglob("*") if path.suffix in _TYPES}


@cache
def _content(path: Path, _changed_ns: int) -> tuple[bytes, str]:
    content = path.read_bytes()
    return content, _tag(content)


def _tag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:24]}"'


def _version() -> str:
    """A hash of all scripts and styles: they load each other, so a browser needs all of the same version."""
    tags = (_content(path, path.stat().st_mtime_ns)[1] for path in sorted(_files().values()))
    return hashlib.sha256("".join(tags).encode()).hexdigest()[:16]


def _file(request: Request, path: Path | None, keep: str = _ASK_AGAIN) -> Response:
    if path is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
    content, tag = _content(path, path.stat().st_mtime_ns)
    return _unless_known(request, content, tag, _TYPES[path.suffix], keep)


def _unless_known(request: Request, content: bytes, tag: str, kind: str, keep: str) -> Response:
    headers = {"ETag": tag, "Cache-Control": keep}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(content, media_type=kind, headers=headers)
