"""Who may see the page, and who may act on it. Each route is tried."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from sqlite3 import OperationalError as LockedError
from typing import Any

import pytest
from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow_values import job, jobs_snapshot, status_snapshot
from fastapi import HTTPException
from page_bench import Page, StillTopics, make_page
from sqlalchemy.exc import OperationalError

from airflow_provider.integration import one_shot
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import Needs
from airflow_provider.state.records import TaskState
from airflow_provider.ui.access.rights import ACTING_HEADER
from airflow_provider.ui.allowed_acts import PageActions, configured_actions
from airflow_provider.values.model import TaskId

GROUP = {"conn": "kafka_default", "group": "etl"}
RETRY: dict[str, Any] = {**GROUP, "job": "job", "defined_at": 0}
OURS = {ACTING_HEADER: "1", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def page() -> Page:
    known = jobs_snapshot(job(), tasks=2)
    return make_page(StillTopics(jobs=known, status=status_snapshot(known, "job", TaskState.FAILED)))


@pytest.fixture
def retried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs of which something was tried again."""
    seen: list[str] = []

    class Topics:
        def retry_failed(self, job: str, indexes: Any, *, by: str, defined_at: int | None) -> tuple[TaskId, ...]:
            seen.append(job)
            return (TaskId(job, 0),)

    def act(settings: KafkaSettings, group: str, needs: Needs, work: Callable[[Topics], tuple[TaskId, ...]]) -> Any:
        return work(Topics())

    monkeypatch.setattr(one_shot, "act", act)
    return seen


@pytest.mark.slow
def test_every_route_refuses_who_has_not_logged_in(page: Page) -> None:
    assert len(page.routes) > 10
    with page.browser(None) as browser:
        answers = {(method, path): browser.request(method, path) for method, path in page.routes}
    assert {route: answer.status_code for route, answer in answers.items()} == dict.fromkeys(page.routes, 401)
    assert all("etl" not in answer.text for answer in answers.values())


def test_every_route_refuses_who_may_not_see_task_instances(page: Page) -> None:
    with page.browser("") as browser:
        assert {browser.request(method, path).status_code for method, path in page.routes} == {403}


def test_whatever_changes_something_is_refused_to_who_may_only_see(page: Page, retried: list[str]) -> None:
    acts = [path for method, path in page.routes if method != "GET"]
    assert acts
    with page.browser("VIEWER") as browser:
        assert {browser.post(path, json=RETRY, headers=OURS).status_code for path in acts} == {403}
        assert browser.get("/api/jobs", params=GROUP).status_code == 200
        assert 'data-steers=""' in browser.get("/").text
    assert not retried
    refused = [f"cospark_{path.rpartition('/')[2]}_refused" for path in acts]
    assert [(event, by) for event, by, _ in page.noted] == [(event, "ann") for event in refused]
    told = {"conn": "kafka_default", "group": "etl", "job": "job", "status": 403}
    assert {extra for _, _, extra in page.noted} == {json.dumps(told)}


@pytest.mark.parametrize(
    ("role", "path", "body", "headers", "status"),
    [
        ("", "retry", {}, OURS, 403),
        ("VIEWER", "submit", {"config": {"password": "hunter2"}}, OURS, 403),
        ("USER", "retry", {}, {}, 403),
        ("USER", "retry", {"conn": "hunter3"}, OURS, 404),
        ("USER", "ask", {"worker": "w9", "action": "stop"}, OURS, 409),
        ("USER", "submit", {"entry_point": "nonsense", "config": {"password": "hunter2"}}, OURS, 409),
        ("USER", "retry", {"defined_at": "hunter2"}, OURS, 422),
    ],
)
def test_what_is_refused_is_in_the_audit_log_without_what_may_be_secret(
    page: Page, role: str, path: str, body: dict[str, Any], headers: dict[str, str], status: int
) -> None:
    asked = {**RETRY, **body}
    with page.browser(role) as browser:
        assert browser.post(f"/api/act/{path}", json=asked, headers=headers).status_code == status
    event, by, extra = page.noted[-1]
    assert (event, by) == (f"cospark_{path}_refused", "ann")
    told: dict[str, Any] = {name: asked[name] for name in ("conn", "group", "job", "worker") if name in asked}
    assert json.loads(extra) == told | {"status": status}
    assert "hunter2" not in json.dumps(page.noted)


def test_nothing_is_done_that_the_audit_log_does_not_take(page: Page, retried: list[str]) -> None:
    def locked(event: str, by: str, extra: str) -> None:
        raise OperationalError("INSERT INTO log", None, LockedError("database is locked"))

    page.app.state.world = replace(page.app.state.world, note=locked)
    with page.browser("USER") as browser:
        answer = browser.post("/api/act/retry", json=RETRY, headers=OURS)
    assert answer.status_code == 503
    assert "nothing was done, because Airflow's database did not take the entry" in answer.json()["detail"]
    assert not retried


def test_questions_that_are_refused_and_who_has_not_logged_in_are_in_no_audit_log(page: Page) -> None:
    with page.browser("") as browser:
        assert browser.get("/api/groups").status_code == 403
    with page.browser(None) as browser:
        assert browser.post("/api/act/retry", json=RETRY, headers=OURS).status_code == 401
    assert not page.noted


def reachable(page: Page) -> tuple[set[str], list[str]]:
    """The acts that a user with all rights is not refused, and what the document lets the scripts show."""
    acts = [path for method, path in page.routes if method == "POST"]
    with page.browser("USER") as browser:
        may = {path.rpartition("/")[2] for path in acts if browser.post(path, json={}, headers=OURS).status_code != 403}
        shown = [name for name in ("steers", "defines") if f'data-{name}="1"' in browser.get("/").text]
    return may, shown


STEERING = {"ask", "level", "pause", "rebalance", "remove", "restart", "resume", "retry", "scale", "stop"}


@pytest.mark.parametrize(
    ("actions", "may", "shown", "config"),
    [
        (PageActions.NONE, set(), [], 403),
        (PageActions.STEER, STEERING, ["steers"], 403),
        (PageActions.ALL, STEERING | {"submit", "alter"}, ["steers", "defines"], 404),
    ],
)
def test_the_page_does_what_its_administrator_lets_it(
    actions: PageActions, may: set[str], shown: list[str], config: int
) -> None:
    page = make_page(StillTopics(), actions=actions)
    assert reachable(page) == (may, shown)
    with page.browser("ADMIN") as browser:
        assert browser.get("/api/definition", params={**GROUP, "job": "gone"}).status_code == config


def test_the_page_steers_where_nothing_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configured_actions() is PageActions.STEER
    monkeypatch.setenv("AIRFLOW__COOPERATIVE_SPARK__PAGE_ACTIONS", "none")
    assert configured_actions() is PageActions.NONE
    monkeypatch.setenv("AIRFLOW__COOPERATIVE_SPARK__PAGE_ACTIONS", "everything")
    with pytest.raises(HTTPException, match="page_actions: 'everything'"):
        configured_actions()


def test_who_may_not_create_runs_of_all_dags_submits_and_alters_nothing(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_authorized_dag(
        _manager: SimpleAuthManager,
        *,
        method: ResourceMethod,
        user: SimpleAuthManagerUser,
        access_entity: DagAccessEntity | None = None,
        details: DagDetails | None = None,
    ) -> bool:
        assert details is not None
        assert details.id == "~"
        return access_entity is DagAccessEntity.TASK_INSTANCE

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)
    assert reachable(page) == (STEERING, ["steers"])


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_who_has_the_right_to_some_dags_only_is_refused(
    page: Page, retried: list[str], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """As FAB's auth manager answers: what is about no DAG in particular is a list, of which the user sees a part."""
    limited = method

    def is_authorized_dag(
        _manager: SimpleAuthManager,
        *,
        method: ResourceMethod,
        user: SimpleAuthManagerUser,
        access_entity: DagAccessEntity | None = None,
        details: DagDetails | None = None,
    ) -> bool:
        return method != limited or details is None or details.id in (None, "theirs")

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", is_authorized_dag)
    with page.browser("USER") as browser:
        seen = {browser.get(path, params=GROUP).status_code for path in ("/", "/api/jobs", "/static/main.js")}
        acted = browser.post("/api/act/retry", json=RETRY, headers=OURS).status_code
        config = browser.get("/api/definition", params=RETRY).status_code
    assert (seen, acted, config) == ({403 if method == "GET" else 200}, 403, 403)
    assert not retried


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {ACTING_HEADER: "1", "Sec-Fetch-Site": "cross-site"},
        {ACTING_HEADER: "1", "Sec-Fetch-Site": "same-site"},
        {ACTING_HEADER: "1", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
def test_what_comes_from_another_site_does_nothing(page: Page, retried: list[str], headers: dict[str, str]) -> None:
    with page.browser("USER") as browser:
        assert browser.post("/api/act/retry", json=RETRY, headers=headers).status_code == 403
    assert not retried


def test_a_form_can_not_be_what_acts(page: Page, retried: list[str]) -> None:
    with page.browser("USER") as browser:
        answer = browser.post("/api/act/retry", data=RETRY, headers=OURS)
    assert answer.status_code == 422
    assert not retried


def test_who_may_edit_task_instances_acts_and_the_audit_log_has_the_name(page: Page, retried: list[str]) -> None:
    with page.browser("USER") as browser:
        assert 'data-steers="1"' in browser.get("/").text
        answer = browser.post("/api/act/retry", json=RETRY, headers=OURS)
    assert answer.json() == {"words": "1 failed task of job job is tried again: job:0"}
    assert retried == ["job"]
    ((event, by, extra),) = page.noted
    assert (event, by) == ("cospark_retry", "ann")
    assert json.loads(extra) == {**RETRY, "tasks": None}


def test_a_worker_that_is_not_there_is_asked_nothing(page: Page) -> None:
    with page.browser("USER") as browser:
        answer = browser.post("/api/act/ask", json={**GROUP, "worker": "w9", "action": "stop"}, headers=OURS)
    assert answer.status_code == 409
    assert "no worker 'w9'" in answer.json()["detail"]


def test_no_connection_but_those_that_are_shown_is_used(page: Page) -> None:
    with page.browser("ADMIN") as browser:
        answer = browser.get("/api/jobs", params={**GROUP, "conn": "postgres_default"})
    assert answer.status_code == 404
    assert "no connection 'postgres_default'" in answer.json()["detail"]


@pytest.mark.parametrize("group", ["etl\x00", "a b", "..", "x" * 243, "\ufffd"])
def test_no_group_is_read_whose_name_no_topic_can_have(page: Page, group: str) -> None:
    with page.browser("VIEWER") as browser:
        answer = browser.get("/api/jobs", params={**GROUP, "group": group})
        shown = browser.get("/", params={**GROUP, "group": group})
    assert (answer.status_code, shown.status_code) == (404, 200)
    assert page.cluster.looked == []


def test_a_browser_is_told_to_run_no_script_but_the_pages_own(page: Page) -> None:
    with page.browser("VIEWER") as browser:
        answers = [browser.get(path) for method, path in page.routes if method == "GET"]
    assert {"script-src 'self';" in answer.headers["Content-Security-Policy"] for answer in answers} == {True}
    assert {answer.headers["X-Content-Type-Options"] for answer in answers} == {"nosniff"}
