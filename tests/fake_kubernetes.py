"""A stand-in for the API server of Kubernetes, for what ``spark-submit`` and workers ask. It answers in the form of the
API reference of Kubernetes 1.37. There is no scheduler and no node: tests say what becomes of pods.

As a program, this is a stand-in for ``spark-submit``: by the properties in a file, it makes a pod, and the config map
that this needs.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from served import served

SUBMITS: Final = f'exec "{sys.executable}" "{__file__}" "$PROPERTIES"\n'
"""A program of the shell."""
CONTAINER: Final = "spark-kubernetes-driver"
IMAGE: Final = "registry.example/spark:4.3.0"
_PATH: Final = re.compile(r"/apis?/(?:networking\.k8s\.io/)?v1/namespaces/([^/]+)/([a-z]+)(?:/([^/]+))?")
_KINDS: Final = {
    "pods": "Pod",
    "services": "Service",
    "configmaps": "ConfigMap",
    "networkpolicies": "NetworkPolicy",
}
_LABEL: Final = "spark.kubernetes.driver.label."
_REASONS: Final = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 500: "InternalError"}

Answer = tuple[int, dict[str, Any]]


def exited(code: int, reason: str, name: str = CONTAINER, **more: Any) -> dict[str, Any]:
    """The status of a container that has ended."""
    times = {"startedAt": "2026-11-30T11:00:05Z", "finishedAt": "2026-11-30T11:00:15Z"}
    return _container(name, {"terminated": {"exitCode": code, "reason": reason, **times, **more}})


def waits(reason: str, message: str = "", name: str = CONTAINER) -> dict[str, Any]:
    said = {"message": message} if message else {}
    return _container(name, {"waiting": {"reason": reason, **said}})


def runs(name: str = CONTAINER) -> dict[str, Any]:
    return _container(name, {"running": {"startedAt": "2026-11-30T11:00:05Z"}})


def _container(name: str, state: dict[str, Any]) -> dict[str, Any]:
    said = {"ready": "running" in state, "restartCount": 0, "image": IMAGE, "imageID": "", "started": False}
    return {"name": name, "state": state, "lastState": {}, **said}


SUCCEEDED: Final = {"phase": "Succeeded", "containerStatuses": [exited(0, "Completed")]}
FAILED: Final = {"phase": "Failed", "containerStatuses": [exited(1, "Error")]}
RUNNING: Final = {"phase": "Running", "containerStatuses": [runs()]}


class FakeKubernetes:
    """:ivar objects: by plural, namespace and name
    :ivar refuses: the code of its answers to all questions about such objects; 0: it does not refuse
    :ivar asked: method, path, and the credentials that were shown
    :ivar lost: pods whose nodes are lost: they are never gone
    :ivar lasts: how often a pod that is being deleted is still there
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.refuses: dict[str, int] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.lost: set[str] = set()
        self.lasts = 2
        self.address = ""
        self._left: dict[tuple[str, str, str], int] = {}
        self._versions = 0
        self._lock = threading.Lock()

    # ---- what tests do

    def pods(self) -> list[dict[str, Any]]:
        return [each for (plural, _namespace, _name), each in self.objects.items() if plural == "pods"]

    def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods()]

    def becomes(self, name: str, status: Mapping[str, Any]) -> None:
        pod = next(each for each in self.pods() if each["metadata"]["name"] == name)
        pod["status"] = {**pod["status"], **status}
        pod["metadata"]["resourceVersion"] = self._version()

    def vanishes(self, name: str) -> None:
        self.objects = {key: each for key, each in self.objects.items() if key[0] != "pods" or key[2] != name}

    # ---- what it answers

    def answer(self, method: str, path: str, body: bytes, credentials: str) -> Answer:
        with self._lock:
            self.asked.append((method, path, credentials))
            parts = urlsplit(path)
            if parts.path == "/version":
                return 200, {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}
            found = _PATH.fullmatch(parts.path)
            if found is None or found[2] not in _KINDS:
                return _status(404, "the server could not find the requested resource")
            namespace, plural, name = found.groups()
            if refused := self.refuses.get(plural):
                who = 'User "system:serviceaccount:etl:worker"'
                return _status(refused, f'{plural} is forbidden: {who} cannot list resource "{plural}"')
            given = json.loads(body) if body else {}
            if name is None and method == "POST":
                return self._made(plural, namespace, given)
            if name is None:
                return 200, self._listed(plural, namespace, parse_qs(parts.query))
            if method == "PATCH":
                return self._applied((plural, namespace, name), given)
            if self._is_gone((plural, namespace, name)):
                return _status(404, f'{plural} "{name}" not found')
            if method == "DELETE":
                return self._deleted((plural, namespace, name), given)
            return 200, self.objects[plural, namespace, name]

    def _made(self, plural: str, namespace: str, given: dict[str, Any]) -> Answer:
        key = (plural, namespace, given["metadata"]["name"])
        if key in self.objects:
            return _status(409, f'{plural} "{key[2]}" already exists', reason="AlreadyExists")
        number = self._version()
        given["metadata"] |= {
            "namespace": namespace,
            "uid": f"00000000-0000-4000-8000-{int(number):012}",
            "resourceVersion": number,
            "creationTimestamp": f"2026-11-30T11:00:{int(number) % 60:02}Z",
        }
        given = {"apiVersion": "v1", "kind": _KINDS[plural], **given}
        if plural == "pods":
            given["status"] = {"phase": "Pending", "qosClass": "Burstable"}
        self.objects[key] = given
        return 201, given

    def _applied(self, key: tuple[str, str, str], given: dict[str, Any]) -> Answer:
        if key not in self.objects:
            return self._made(key[0], key[1], given)
        self.objects[key] |= {name: value for name, value in given.items() if name != "metadata"}
        return 200, self.objects[key]

    def _listed(self, plural: str, namespace: str, query: Mapping[str, list[str]]) -> dict[str, Any]:
        wanted = {tuple(each.split("=", 1)) for each in ",".join(query.get("labelSelector", [])).split(",") if each}
        items = [
            {name: value for name, value in self.objects[key].items() if name not in ("apiVersion", "kind")}
            for key in [*self.objects]
            if key[:2] == (plural, namespace)
            and wanted <= (self.objects[key]["metadata"].get("labels") or {}).items()
            and not self._is_gone(key)
        ]
        about = {"kind": f"{_KINDS[plural]}List", "apiVersion": "v1"}
        return {**about, "metadata": {"resourceVersion": str(self._versions)}, "items": items}

    def _is_gone(self, key: tuple[str, str, str]) -> bool:
        """As if a kubelet had ended what is being deleted."""
        if key not in self.objects:
            return True
        if key in self._left and key[2] not in self.lost:
            self._left[key] -= 1
            if self._left[key] < 0:
                del self.objects[key], self._left[key]
                return True
        return False

    def _deleted(self, key: tuple[str, str, str], options: Mapping[str, Any]) -> Answer:
        metadata = self.objects[key]["metadata"]
        for name, value in (options.get("preconditions") or {}).items():
            if metadata[name] != value:
                return _status(409, f"Precondition failed: {name} in precondition: {value}, not {metadata[name]}")
        grace = options.get("gracePeriodSeconds", 30)
        now = datetime(2026, 11, 30, 12, tzinfo=timezone.utc) + timedelta(seconds=grace)
        self._left.setdefault(key, self.lasts)
        metadata |= {"deletionTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}", "deletionGracePeriodSeconds": grace}
        metadata["resourceVersion"] = self._version()
        return 200, self.objects[key]

    def _version(self) -> str:
        self._versions += 1
        return str(self._versions)


def _status(code: int, message: str, reason: str = "") -> Answer:
    about = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return code, {**about, "message": message, "reason": reason or _REASONS[code], "code": code}


@contextmanager
def api_server() -> Iterator[FakeKubernetes]:
    kubernetes = FakeKubernetes()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            shown = self.headers.get("Authorization", "")
            code, answer = kubernetes.answer(self.command, self.path, body, shown)
            data = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # who has asked may be gone
                self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None: ...

    with served(Handler) as port:
        kubernetes.address = f"http://127.0.0.1:{port}"
        yield kubernetes


def write_kubeconfig(file: Path, server: str, token: str = "token-of-ann") -> Path:
    """:param server: whose credentials these are"""
    context = {"cluster": "etl", "user": "ann"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "etl", "cluster": {"server": server}}],
        "users": [{"name": "ann", "user": {"token": token}}],
        "contexts": [{"name": "etl", "context": context}],
        "current-context": "etl",
    }
    file.write_text(json.dumps(content))  # which is YAML, too
    return file


# ---- the program


def _properties(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text().splitlines() if "=" in line)
    return {_unescaped(name): _unescaped(value) for name, _equals, value in lines}


def _unescaped(text: str) -> str:
    return re.sub(r"\\u([0-9a-f]{4})", lambda found: chr(int(found[1], 16)), text)


def pod_of(conf: Mapping[str, str], conf_map: str) -> dict[str, Any]:
    """As Spark 4.3 makes it, in short."""
    labels = {name.removeprefix(_LABEL): value for name, value in conf.items() if name.startswith(_LABEL)}
    volume = {"name": "spark-conf-volume-driver", "configMap": {"name": conf_map, "defaultMode": 420}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": conf["spark.kubernetes.driver.pod.name"], "labels": {"spark-role": "driver", **labels}},
        "spec": {"containers": [{"name": CONTAINER, "image": IMAGE}], "volumes": [volume], "restartPolicy": "Never"},
    }


def _send(method: str, url: str, body: dict[str, Any]) -> None:
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=60).close()


def main(file: str) -> None:
    conf = _properties(Path(file))
    name = f"{conf['spark.kubernetes.driver.pod.name']}-conf-map"
    base = f"{conf['spark.master'].removeprefix('k8s://')}/api/v1/namespaces/{conf['spark.kubernetes.namespace']}"
    try:
        _send("POST", f"{base}/pods", pod_of(conf, name))
        _send("PATCH", f"{base}/configmaps/{name}", {"metadata": {"name": name}, "data": conf})
    except urllib.error.HTTPError as refused:
        sys.exit(f"{refused}: {refused.read().decode()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
