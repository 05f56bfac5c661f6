"""YARN, by the REST interface of its resource manager (a :class:`~airflow_provider.spark.submit.detached.Cluster`).

The addresses are those of this process's own configuration, by which ``spark-submit`` finds YARN, too. A cluster with
Kerberos in front of this interface is not supported.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree

from airflow_provider.spark.submit.detached import ClusterSilentError, Driver, DriverState

_ANSWER_S: Final = 10.0
_NOT_FOUND: Final = 404
_LONGEST_WHY: Final = 1_000
_TELLING: Final = re.compile(r"\bERROR\b|^(?:Caused by: )?[\w.$]+(?:Error|Exception)\b")
"""A line of a log that says why something failed."""
_CONF_DIRS: Final = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
_PORTS: Final[Mapping[str, int]] = {"http": 8088, "https": 8090}
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without the proxies for what is outside."""
_ENDS: Final[Mapping[str, DriverState]] = {
    "SUCCEEDED": DriverState.SUCCEEDED,
    "KILLED": DriverState.KILLED,
    "FAILED": DriverState.FAILED,
}


class NoYarnError(Exception):
    """This process has no configuration of YARN."""


class Yarn:
    """:param addresses: of its resource managers: ``http://host:port``. One of them is active"""

    name = "yarn"

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = tuple(addresses)

    def settings(self, tag: str) -> Mapping[str, str]:
        return {
            "spark.submit.deployMode": "cluster",
            "spark.yarn.tags": tag,
            "spark.yarn.submit.waitAppCompletion": "false",
        }

    def find(self, tag: str) -> list[Driver]:
        answer = self._ask("GET", f"apps?applicationTags={quote(tag)}")
        if answer is None:
            raise ClusterSilentError("a resource manager has no list of applications: is its address right?")
        return [_driver(app) for app in (answer.get("apps") or {}).get("app") or ()]

    def look(self, driver_id: str) -> Driver | None:
        answer = self._ask("GET", f"apps/{quote(driver_id)}")
        return None if answer is None else _driver(answer["app"])

    def kill(self, driver_id: str) -> None:
        user = quote(os.environ.get("HADOOP_USER_NAME") or getpass.getuser())
        self._ask("PUT", f"apps/{quote(driver_id)}/state?user.name={user}", {"state": "KILLED"})

    def _ask(self, method: str, path: str, body: object = None) -> dict[str, Any] | None:
        """None: there is no such application. This counts if the resource manager is active: one that was just started
        knows nothing until it has read what another one has stored.

        :raises ClusterSilentError: if no resource manager answers
        """
        refusals = []
        for address in self._addresses:
            try:
                url = f"{address}/ws/v1/cluster/{path}"
                answer = _answer(method, url, body)
                if _names_something(answer):
                    return answer
                _require_active(address)
                return _answer(method, url, body)
            except (OSError, ValueError, HTTPException) as refused:
                refusals.append(f"{address}: {refused}")
        raise ClusterSilentError(f"no resource manager answers ({'; '.join(refusals)})")


def yarn_here(environment: Mapping[str, str]) -> Yarn:
    """The YARN that the environment's configuration names.

    :raises NoYarnError: if it names none
    """
    folder = next((environment[name] for name in _CONF_DIRS if environment.get(name)), None)
    if folder is None:
        raise NoYarnError("HADOOP_CONF_DIR: it is not set in the environment here, so YARN is not known")
    try:
        settings = dict(_settings_in(Path(folder, "yarn-site.xml")))
    except (OSError, ElementTree.ParseError) as wrong:
        raise NoYarnError(f"HADOOP_CONF_DIR: yarn-site.xml can't be read: {wrong}") from wrong
    if not (addresses := addresses_in(settings)):
        raise NoYarnError(f"HADOOP_CONF_DIR: {folder}/yarn-site.xml names no resource manager")
    return Yarn(addresses)


def addresses_in(settings: Mapping[str, str]) -> list[str]:
    """Where resource managers have their REST interface, according to the settings of ``yarn-site.xml``."""
    scheme = "https" if settings.get("yarn.http.policy") == "HTTPS_ONLY" else "http"
    name = "yarn.resourcemanager.webapp.address" if scheme == "http" else "yarn.resourcemanager.webapp.https.address"
    ids = [each.strip() for each in settings.get("yarn.resourcemanager.ha.rm-ids", "").split(",") if each.strip()]
    found = []
    for suffix in [f".{each}" for each in ids] or [""]:
        host = settings.get(f"yarn.resourcemanager.hostname{suffix}", "")
        address = settings.get(f"{name}{suffix}") or (host and f"{host}:{_PORTS[scheme]}")
        if address:
            found.append(f"{scheme}://{address.replace('${yarn.resourcemanager.hostname}', host)}")
    return found


def _settings_in(file: Path) -> Iterator[tuple[str, str]]:
    for each in ElementTree.parse(file).iter("property"):  # noqa: S314 - it is this process's own
        yield (each.findtext("name") or "").strip(), (each.findtext("value") or "").strip()


def _answer(method: str, url: str, body: object) -> dict[str, Any] | None:
    request = urllib.request.Request(url, method=method, headers={"Accept": "application/json"})  # noqa: S310
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        with _OPENER.open(request, timeout=_ANSWER_S) as answer:
            read = json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        refused.close()
        if refused.code == _NOT_FOUND:
            return None
        raise
    if not isinstance(read, dict):
        raise ValueError("it answers something else than a resource manager")
    return read


def _names_something(answer: Mapping[str, Any] | None) -> bool:
    return answer is not None and bool(answer.get("apps", answer))


def _require_active(address: str) -> None:
    """:raises ValueError: if this is a resource manager that is not in charge, or not yet"""
    info = (_answer("GET", f"{address}/ws/v1/cluster/info", None) or {}).get("clusterInfo") or {}
    if (state := info.get("haState")) != "ACTIVE":
        raise ValueError(f"it is {'no resource manager' if state is None else f'not active: {state}'}")


def _driver(app: Mapping[str, Any]) -> Driver:
    """A state that this module does not know counts as one before the end: then it is looked at again.

    :raises ClusterSilentError: if this is no application
    """
    if not {"id", "state"} <= app.keys():
        raise ClusterSilentError("something else than a resource manager has answered")
    state, final = app["state"], app.get("finalStatus", "")
    ended = _ENDS.get(final, DriverState.FAILED) if state == "FINISHED" else _ENDS.get(state, DriverState.RUNS)
    return Driver(
        id=app["id"],
        state=ended,
        submitted_ms=int(app.get("startedTime", 0)),
        page=app.get("trackingUrl") or "",
        why=_why(app.get("diagnostics") or ""),
    )


def _why(diagnostics: str) -> str:
    """In short. If a driver has ended without a word to YARN, these contain the end of its log, twice."""
    lines = diagnostics.splitlines()
    if len(diagnostics) > _LONGEST_WHY:
        telling = [lines[0], *filter(_TELLING.search, lines[1:])]
        lines = telling if len(telling) > 1 else lines
    return " ".join(" ".join(dict.fromkeys(lines)).split())[:_LONGEST_WHY]
