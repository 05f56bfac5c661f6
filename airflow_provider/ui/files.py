"""The files of the page: a browser gets them as they are, from here and from nowhere else."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Depends, HTTPException, Request, Response, status

from airflow_provider.ui import drawing
from airflow_provider.ui.world import World, world_of

router: Final = APIRouter()

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""No script but our own, and none within a document. The drawing library writes styles into its elements."""

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@router.get("/")
def page(
    request: Request, world: Annotated[World, Depends(world_of)], conn: str | None = None, group: str | None = None
) -> Response:
    """A group that the address names is asked for as soon as the scripts are there: its reading begins now."""
    if conn and group:
        world.begin(conn, group)
    return _file(request, _FOLDER / "index.html")


@router.get("/static/{name}")
def static(request: Request, name: str) -> Response:
    return _file(request, _files().get(name))


@router.get("/drawing/{name}")
def drawn_by(request: Request, name: str) -> Response:
    path = drawing.script(name)
    if path is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, drawing.HOW_TO_GET_IT)
    return _file(request, path)


@cache
def _files() -> dict[str, Path]:
    return {path.name: path for path in _FOLDER.iterdir() if path.suffix in _TYPES}


@cache
def _content(path: Path, _changed_ns: int) -> tuple[bytes, str]:
    content = path.read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:24]}"'


def _file(request: Request, path: Path | None) -> Response:
    if path is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "there is no such file")
    content, tag = _content(path, path.stat().st_mtime_ns)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(content, media_type=_TYPES[path.suffix], headers=headers)
