"""A stand-in for the REST interface of YARN's resource manager. It answers as that of Hadoop 3.4 does.

A program "submits" by a file in a folder, which contains the properties that ``spark-submit`` was given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from served import served

_APPS: Final = "/ws/v1/cluster/apps"
_INFO: Final = "/ws/v1/cluster/info"
SUBMITS: Final = 'cp "$PROPERTIES" "$1/$(ls "$1" | wc -l)"'
"""A program of the shell: its argument is the folder."""
_LOG: Final = """\
26/11/30 08:58:32 INFO SignalUtils: Registering signal handler for TERM
26/11/30 08:58:34 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform
26/11/30 08:58:34 INFO ApplicationMaster: Starting the user application in a separate Thread
26/11/30 08:58:35 ERROR ApplicationMaster: User application exited with status 1
26/11/30 08:58:35 ERROR ApplicationMaster: Uncaught exception:
org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkUserAppException: User application exited with 1
\tat org.apache.spark.deploy.PythonRunner$.main(PythonRunner.scala:127)"""


class FakeResourceManager:
    """:ivar ends: the states of applications that do not run: state and final status, by id
    :ivar log: the end of the log of drivers that have ended without a word
    :ivar state: what it says of itself. Until it is active, it knows nothing; it may become so with each answer
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = _LOG
        self.state = "ACTIVE"
        self.becomes: list[str] = []
        self.ends: dict[str, tuple[str, str]] = {}
        self.kills: list[tuple[str, str]] = []
        self.address = ""

    def apps(self) -> list[dict[str, Any]]:
        return [self._app(file) for file in sorted(self.folder.iterdir())]

    def _app(self, file: Path) -> dict[str, Any]:
        app_id = f"application_1700000000000_{int(file.name):04}"
        state, final = self.ends.get(app_id, ("RUNNING", "UNDEFINED"))
        tags = re.findall(r"^spark\.yarn\.tags=(.*)$", file.read_text(), re.MULTILINE)
        place = f"cluster/app/{app_id}" if state in ("FAILED", "KILLED") else f"proxy/{app_id}/"
        page = {} if state == "ACCEPTED" else {"trackingUrl": f"http://rm:8088/{place}"}
        return {
            "id": app_id,
            "user": "ann",
            "name": "etl",
            "queue": "default",
            "state": state,
            "finalStatus": final,
            "progress": 10.0,
            **page,
            "diagnostics": self._diagnostics(app_id, state, final),
            "applicationType": "SPARK",
            "applicationTags": ",".join(tags),
            "startedTime": 1700000000000 + int(file.name),
            "finishedTime": 0,
        }

    def _diagnostics(self, app_id: str, state: str, final: str) -> str:
        if state == "KILLED":
            return f"Application {app_id} was killed by user ann"
        if state == "FAILED":  # its driver has ended without a word
            attempt, at = f"appattempt_{app_id.removeprefix('application_')}_000002", "[2026-11-30 08:58:35.280]"
            ended = f"{at}Container exited with a non-zero exit code 13.\nLast 4096 bytes of stderr :\n{self.log}\n\n"
            return (
                f"Application {app_id} failed 2 times due to AM Container for {attempt} exited with  exitCode: 13\n"
                f"Failing this attempt.Diagnostics: {at}Exception from container-launch.\n"
                f"{ended * 2}For more detailed output, check the application tracking page. Failing the application."
            )
        return "User application exited with status 1" if final == "FAILED" else ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        apps = self.apps() if self.state == "ACTIVE" else []
        if self.becomes:
            self.state = self.becomes.pop(0)
        if parts.path == _INFO:
            return 200, {"clusterInfo": {"id": 1700000000000, "state": "STARTED", "haState": self.state}}
        if parts.path == _APPS:
            found = [app for app in apps if app["applicationTags"] in query["applicationTags"]]
            return 200, {"apps": {"app": found} if found else {}}
        app_id = parts.path.removeprefix(f"{_APPS}/").removesuffix("/state")
        app = next((each for each in apps if each["id"] == app_id), None)
        if app is None:
            message = f"java.lang.Exception: app with id: {app_id} not found"
            return 404, {"RemoteException": {"exception": "NotFoundException", "message": message}}
        if method == "PUT":
            self.kills.append((app_id, query["user.name"][0]))
            if app_id in self.ends:
                return 200, {"state": app["state"]}
            self.ends[app_id] = (json.loads(body)["state"], "KILLED")
            return 202, {"state": "KILLING"}
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

    with served(Handler) as port:
        manager.address = f"127.0.0.1:{port}"
        yield manager
