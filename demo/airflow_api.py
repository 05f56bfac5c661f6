"""A typed client of Airflow's REST API (v2), for the demo and the system tests; waits have deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
import pendulum

FINISHED_STATES: Final = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States of a task instance (and, the first two, of a DAG run) that are final."""

WAIT_S: Final = 300.0
"""How long anything may take on a machine that does more than this."""
_PAGE: Final = 100
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.5
_LONGER: Final = 1.5
"""By this factor the time between two requests grows while waiting: each costs the API server 20 ms of a core, and some
waits take minutes.
"""
_KEPT_S: Final = 2.0
"""Reuse a connection only if it was idle for less. The server closes it after five seconds, and a request that is sent
at that moment fails.
"""
_LOCKED: Final = ("Database error", "Internal Server Error")
"""What Airflow answers if its database is locked; the second one, before Airflow 3.3, for any error."""
_T = TypeVar("_T")


class AirflowApiError(Exception):
    """Airflow refused a request, or what was waited for did not happen in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInstance:
    """One task instance, as Airflow shows it."""

    id: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    """-1 for a task that is not mapped."""
    try_number: int
    state: str | None
    pid: int | None
    """The task's own process (not its supervisor): current while the state is running."""
    start_date: datetime | None
    end_date: datetime | None
    trigger_class: str | None
    """Class path of the trigger; only while deferred."""
    trigger_id: int | None
    triggerer_job: int | None
    """The triggerer that runs the trigger; None until one has taken it."""

    @property
    def path(self) -> str:
        mapped = "" if self.map_index < 0 else f"/{self.map_index}"
        return f"{_run_path(self.dag_id, self.run_id)}/taskInstances/{quote(self.task_id)}{mapped}"

    def __str__(self) -> str:
        mapped = "" if self.map_index < 0 else f"[{self.map_index}]"
        return f"{self.dag_id}.{self.task_id}{mapped} ({self.run_id}, try {self.try_number}): {self.state}"


class AirflowApi:
    """A client of one Airflow.

    :param url: the API server's base URL
    :param username: a user of the simple auth manager
    :param password: that user's password
    :param check: called repeatedly during waits; raises if waiting has become useless
    :param timeout_s: how long to wait for a condition, in seconds; a single answer may always take ``WAIT_S``
    """

    def __init__(
        self,
        url: str,
        *,
        username: str,
        password: str,
        check: Callable[[], object] = lambda: None,
        timeout_s: float = WAIT_S,
    ) -> None:
        self.url = url
        self._timeout_s = timeout_s
        self._answer_s = max(timeout_s, WAIT_S)
        self._check = check
        self._credentials = {"username": username, "password": password}
        limits = httpx.Limits(keepalive_expiry=_KEPT_S)
        self._http = httpx.Client(base_url=url, timeout=self._answer_s, trust_env=False, limits=limits)
        self._token: str | None = None

    def __repr__(self) -> str:
        return f"<AirflowApi {self.url}>"

    def close(self) -> None:
        self._http.close()

    @property
    def token(self) -> str:
        """A bearer token, requested once; also valid as the UI's cookie ``_token``."""
        if self._token is None:
            answer = self._http.post("/auth/token", json=self._credentials)
            if answer.status_code != httpx.codes.CREATED:
                raise AirflowApiError(f"no token from {self.url}: status {answer.status_code}")
            self._token = str(answer.json()["access_token"])
        return self._token

    def request(self, method: str, path: str, **options: Any) -> Any:
        """Send one request, and return the JSON of the answer (None if it is empty).

        Airflow's API server writes with two connections at a time, and SQLite sometimes makes these wait for each other
        until one gives up. Such a request is sent again, for as long as this may take on a busy machine.

        :param method: HTTP method
        :param path: what follows ``/api/v2``
        :param options: passed on to httpx: ``params``, ``json``
        :raises AirflowApiError: for any status but success
        """
        deadline = time.monotonic() + self._answer_s
        while True:
            answer = self._http.request(
                method, f"/api/v2{path}", headers={"Authorization": f"Bearer {self.token}"}, **options
            )
            locked = any(text in answer.text for text in _LOCKED)
            if answer.status_code != httpx.codes.INTERNAL_SERVER_ERROR or not locked or time.monotonic() >= deadline:
                break
            time.sleep(_FIRST_PAUSE_S)
        if not answer.is_success:
            raise AirflowApiError(f"{method} {path}: status {answer.status_code}: {answer.text[:2000]}")
        return answer.json() if answer.content else None

    def wait_until(self, condition: Callable[[], _T | None], *, what: Callable[[], str]) -> _T:
        """As the function :func:`wait_until`, while this Airflow is healthy.

        :raises AirflowApiError: at the deadline; names the components that are not healthy
        """

        def met() -> _T | None:
            self._check()
            return condition()

        def not_met() -> str:
            ill = sorted(name for name, status in self.health().items() if status == "unhealthy")
            return f"{', '.join(ill)} unhealthy: {what()}" if ill else what()

        return wait_until(met, timeout_s=self._timeout_s, what=not_met)

    # Health

    def health(self) -> dict[str, str | None]:
        """The state of each component: ``healthy``, ``unhealthy`` or None (never seen). Empty if there is no answer."""
        try:
            answer = self._http.get("/api/v2/monitor/health", timeout=5.0)
        except httpx.TransportError:
            return {}
        if not answer.is_success:
            return {}
        return {component: info["status"] for component, info in answer.json().items() if info is not None}

    def warm_up(self) -> None:
        """Let the API server build what it builds for the first request of a task, which would otherwise wait 3 s."""
        answer = self._http.get("/execution/health")
        if not answer.is_success:
            raise AirflowApiError(f"the task execution API does not answer: status {answer.status_code}")

    # DAGs and runs

    def import_errors(self) -> dict[str, str]:
        """The traceback of each DAG file that could not be loaded, by file name."""
        return {
            error["filename"]: error["stack_trace"]
            for error in self.request("GET", "/importErrors", params={"limit": _PAGE})["import_errors"]
        }

    def wait_for_dag(self, dag_id: str) -> None:
        """Wait until the DAG processor has loaded ``dag_id``.

        :raises AirflowApiError: at the deadline, or if a file could not be loaded
        """

        def known() -> bool:
            found = self.request("GET", "/dags", params={"dag_id_pattern": dag_id, "limit": _PAGE})["dags"]
            if any(dag["dag_id"] == dag_id for dag in found):
                return True
            if errors := self.import_errors():
                raise AirflowApiError(
                    "\n".join(f"{file} could not be loaded: {error}" for file, error in errors.items())
                )
            return False

        self.wait_until(known, what=lambda: f"no file has a DAG {dag_id}")

    def pause(self, dag_id: str) -> None:
        self._set_paused(dag_id, True)

    def unpause(self, dag_id: str) -> None:
        self._set_paused(dag_id, False)

    def look_at_file(self, dag_id: str) -> None:
        """Have the DAG processor look at the DAG's file soon: watchers of its unpaused DAGs' assets begin then.

        Unpause all the file's DAGs before, and ask once: a second request is refused until the processor looks, and is
        lost while it does.
        """
        token = self.request("GET", f"/dags/{quote(dag_id)}")["file_token"]
        self.request("PUT", f"/parseDagFile/{quote(token)}")

    def _set_paused(self, dag_id: str, paused: bool) -> None:
        self.request("PATCH", f"/dags/{quote(dag_id)}", params={"update_mask": "is_paused"}, json={"is_paused": paused})

    def trigger(self, dag_id: str, *, run_id: str | None = None, conf: dict[str, Any] | None = None) -> str:
        """Unpause ``dag_id`` and start a run of it now; return the run's id.

        :param dag_id: must have been loaded, see :meth:`wait_for_dag`
        :param run_id: chosen by Airflow if None
        :param conf: the run's configuration
        """
        self.unpause(dag_id)
        body: dict[str, Any] = {"logical_date": None, "conf": conf or {}}
        if run_id is not None:
            body["dag_run_id"] = run_id
        return str(self.request("POST", f"/dags/{quote(dag_id)}/dagRuns", json=body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.request("GET", _run_path(dag_id, run_id))["state"])

    def wait_for_run(self, dag_id: str, run_id: str, *, states: Collection[str] = ("success",)) -> str:
        """Wait until the run is in one of ``states``.

        :raises AirflowApiError: at the deadline, or if it ended in another state; lists the task instances
        """

        def reached() -> str | None:
            state = self.run_state(dag_id, run_id)
            if state in FINISHED_STATES and state not in states:
                raise AirflowApiError(f"{dag_id} {run_id} ended as {state}: {self._listing(dag_id, run_id)}")
            return state if state in states else None

        return self.wait_until(
            reached,
            what=lambda: f"{dag_id} {run_id} is not {'/'.join(states)}: {self._listing(dag_id, run_id)}",
        )

    def _listing(self, dag_id: str, run_id: str) -> str:
        return "; ".join(str(instance) for instance in self.task_instances(dag_id, run_id))

    # Task instances

    def task_instances(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """All task instances of a run; each one of mapped tasks."""
        found: list[TaskInstance] = []
        while True:
            params = {"limit": _PAGE, "offset": len(found), "order_by": "id"}
            page = self.request("GET", f"{_run_path(dag_id, run_id)}/taskInstances", params=params)
            found += [_task_instance(item) for item in page["task_instances"]]
            if not page["task_instances"] or len(found) >= page["total_entries"]:
                return found

    def task_instance(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> TaskInstance:
        """One task instance.

        :raises AirflowApiError: if there is none
        """
        mapped = "" if map_index < 0 else f"/{map_index}"
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}{mapped}"
        return _task_instance(self.request("GET", path))

    def wait_for_task(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        map_index: int = -1,
        *,
        states: Collection[str] = ("success",),
        where: Callable[[TaskInstance], bool] = lambda _: True,
    ) -> TaskInstance:
        """Wait until a task instance is in one of ``states`` and ``where`` holds for it.

        :raises AirflowApiError: at the deadline, or if it ended in another state (with its log)
        """
        seen: TaskInstance | None = None

        def reached() -> TaskInstance | None:
            nonlocal seen
            seen = self.task_instance(dag_id, run_id, task_id, map_index)
            if seen.state in FINISHED_STATES and seen.state not in states:
                raise AirflowApiError(f"{seen}\n{self.log(seen)[-4000:]}")
            return seen if seen.state in states and where(seen) else None

        return self.wait_until(reached, what=lambda: f"not {'/'.join(states)} as expected: {seen}")

    def running_pid(self, instance: TaskInstance) -> int:
        """The process that runs ``instance``'s code (its parent is the supervisor).

        :raises AirflowApiError: if it does not run by the deadline
        """
        running = self.wait_for_task(
            instance.dag_id,
            instance.run_id,
            instance.task_id,
            instance.map_index,
            states=("running",),
            where=lambda seen: seen.pid is not None,
        )
        assert running.pid is not None
        return running.pid

    def set_state(self, instance: TaskInstance, state: str) -> None:
        """Mark a task instance ``success`` or ``failed``, as a user does in the UI."""
        self.request("PATCH", instance.path, json={"new_state": state})

    def clear(self, instance: TaskInstance) -> None:
        """Clear a task instance so that it runs again, as a user does in the UI."""
        task = instance.task_id if instance.map_index < 0 else [instance.task_id, instance.map_index]
        body = {"dry_run": False, "dag_run_id": instance.run_id, "task_ids": [task], "only_failed": False}
        self.request("POST", f"/dags/{quote(instance.dag_id)}/clearTaskInstances", json=body)

    def xcom(self, instance: TaskInstance, key: str = "return_value") -> Any:
        """A value that a task instance has pushed to XCom.

        :raises AirflowApiError: if there is none
        """
        path = (
            f"{_run_path(instance.dag_id, instance.run_id)}/taskInstances/{quote(instance.task_id)}/xcomEntries/{key}"
        )
        params: dict[str, Any] = {"deserialize": False, "stringify": False}
        if instance.map_index >= 0:
            params["map_index"] = instance.map_index
        return self.request("GET", path, params=params)["value"]

    def log(self, instance: TaskInstance, try_number: int | None = None) -> str:
        """The log of one try (by default the present one), with a line for each event."""
        path = f"{_run_path(instance.dag_id, instance.run_id)}/taskInstances/{quote(instance.task_id)}"
        params = {"full_content": True, "map_index": instance.map_index}
        answer = self.request("GET", f"{path}/logs/{try_number or max(1, instance.try_number)}", params=params)
        return "\n".join(line if isinstance(line, str) else _log_line(line) for line in answer["content"])

    def links(self, instance: TaskInstance) -> dict[str, str | None]:
        """The task instance's extra links: URL by name."""
        path = f"{_run_path(instance.dag_id, instance.run_id)}/taskInstances/{quote(instance.task_id)}/links"
        answer: dict[str, str | None] = self.request("GET", path, params={"map_index": instance.map_index})[
            "extra_links"
        ]
        return answer


def wait_until(condition: Callable[[], _T | None], *, timeout_s: float, what: Callable[[], str]) -> _T:
    """Call ``condition`` until it returns something true, and return that.

    :param condition: called at growing intervals
    :param timeout_s: the deadline, in seconds
    :param what: returns, at the deadline, what did not happen
    :raises AirflowApiError: at the deadline
    """
    deadline = time.monotonic() + timeout_s
    pause_s = _FIRST_PAUSE_S
    while not (result := condition()):
        if time.monotonic() >= deadline:
            raise AirflowApiError(f"after {timeout_s:g} s: {what()}")
        time.sleep(pause_s)
        pause_s = min(_LONGER * pause_s, _LONGEST_PAUSE_S)
    return result


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/dags/{quote(dag_id)}/dagRuns/{quote(run_id)}"


def _task_instance(item: dict[str, Any]) -> TaskInstance:
    trigger = item.get("trigger") or {}
    return TaskInstance(
        id=item["id"],
        dag_id=item["dag_id"],
        run_id=item["dag_run_id"],
        task_id=item["task_id"],
        map_index=item["map_index"],
        try_number=item["try_number"],
        state=item["state"],
        pid=item["pid"],
        start_date=_time(item["start_date"]),
        end_date=_time(item["end_date"]),
        trigger_class=trigger.get("classpath"),
        trigger_id=trigger.get("id"),
        triggerer_job=trigger.get("triggerer_id"),
    )


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = pendulum.parse(text)
    assert isinstance(moment, pendulum.DateTime)
    return moment


def _log_line(line: dict[str, Any]) -> str:
    error = line.get("error_detail")
    return (
        f"{line.get('timestamp') or ''} {line.get('level') or ''} {line['event']}{f' {error}' if error else ''}".strip()
    )
