"""A stand-in for the REST interface of YARN's resource manager, written after Hadoop's documentation of it.

A program "submits" by a file in a folder, which contains the properties that ``spark-submit`` was given.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

_APPS: Final = "/ws/v1/cluster/apps"
SUBMITS: Final = 'cp "$PROPERTIES" "$1/$(ls "$1" | wc -l)"'
"""A program of the shell: its argument is the folder."""


class FakeResourceManager:
    """:ivar ends: the states of applications that do not run: state and final status, by id"""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ends: dict[str, tuple[str, str]] = {}
        self.kills: list[tuple[str, str]] = []
        self.address = ""

    def apps(self) -> list[dict[str, Any]]:
        return [self._app(file) for file in sorted(self.folder.iterdir())]

    def _app(self, file: Path) -> dict[str, Any]:
        app_id = f"application_1700000000000_{int(file.name):04}"
        state, final = self.ends.get(app_id, ("RUNNING", "UNDEFINED"))
        tags = re.findall(r"^spark\.yarn\.tags=(.*)$", file.read_text(), re.MULTILINE)
        return {
            "id": app_id,
            "user": "ann",
            "name": "etl",
            "queue": "default",
            "state": state,
            "finalStatus": final,
            "progress": 10.0,
            "trackingUrl": f"http://rm:8088/proxy/{app_id}/",
            "diagnostics": "" if state == "RUNNING" else "User application\n exited with status 1",
            "applicationType": "SPARK",
            "applicationTags": ",".join(tags),
            "startedTime": 1700000000000 + int(file.name),
            "finishedTime": 0,
        }

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        if parts.path == _APPS:
            found = [app for app in self.apps() if app["applicationTags"] in query["applicationTags"]]
            return 200, {"apps": {"app": found} if found else None}
        app_id = parts.path.removeprefix(f"{_APPS}/").removesuffix("/state")
        app = next((each for each in self.apps() if each["id"] == app_id), None)
        if app is None:
            return 404, {"RemoteException": {"exception": "NotFoundException"}}
        if method == "PUT":
            self.kills.append((app_id, query["user.name"][0]))
            self.ends[app_id] = (json.loads(body)["state"], "KILLED")
            return 202, {"state": "ACCEPTED"}
        return 200, {"app": app}


@contextmanager
def resource_manager(folder: Path) -> Iterator[FakeResourceManager]:
    folder.mkdir(parents=True)
    manager = FakeResourceManager(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET")

        def do_PUT(self) -> None:
            self._answer("PUT")

        def _answer(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            code, answer = manager.answer(method, self.path, body)
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        manager.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield manager
        finally:
            server.shutdown()
            thread.join()
