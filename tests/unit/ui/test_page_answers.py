"""What the page's routes answer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow_values import URL, job, jobs_snapshot, status_snapshot, worker_status
from demo_history import rebalance
from group_records import record_of
from page_bench import Page, StillTopics, make_page

import airflow_provider.ui
from airflow_provider.assignment.model import Memory
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.kafka.topics.reader import Record
from airflow_provider.state.records import ActionEvent, TaskState, encode
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.routes import bokeh_scripts
from airflow_provider.ui.shared_reading import watching
from airflow_provider.ui.shared_reading.watching import WatchedGroup
from airflow_provider.ui.views.groups import GroupInShort, group_in_short
from airflow_provider.values.model import WorkerId

GROUP = {"conn": "kafka_default", "group": "etl"}
STATIC = Path(airflow_provider.ui.__file__).parent / "static"


def page_of(**more: Any) -> Page:
    known = jobs_snapshot(job(), tasks=3)
    status = status_snapshot(known, "job", TaskState.FINISHED, TaskState.FAILED)
    return make_page(StillTopics(**{"jobs": known, "status": status, **more}))


def get(page: Page, path: str, **params: Any) -> Any:
    with page.browser("VIEWER") as browser:
        answer = browser.get(path, params={**GROUP, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_all_groups() -> None:
    (cluster,) = get(page_of(), "/api/groups")["clusters"]
    (head,) = cluster["groups"]
    assert (cluster["conn"], head["group"], head["reading"]) == ("kafka_default", "etl", False)
    assert head["short"]["jobs"] == [
        {"job": "job", "state": "failed", "bounded": True, "tasks": 3, "finished": 1, "running": 0, "failed": 1}
    ]
    assert head["short"]["wrong"] == ["job job: 1 task has failed", "no worker has joined yet"]


@pytest.mark.slow
@pytest.mark.parametrize("view", ["workers", "jobs", "tasks", "timeline", "epochs", "learners"])
def test_each_view_has_the_groups_head_beside_it(view: str) -> None:
    answer = get(page_of(), f"/api/{view}")
    assert answer["head"]["short"]["group"] == "etl"
    assert answer["body"] is not None


@pytest.mark.slow
def test_a_group_whose_reading_is_about_to_begin() -> None:
    answer = get(page_of(), "/api/jobs", group="another")
    assert answer["head"]["reading"] is True
    assert answer["body"] is None


def test_of_a_group_that_is_still_being_read_no_beginning_is_shown() -> None:
    answer = get(page_of(caught_up=False), "/api/jobs")
    assert (answer["head"]["reading"], answer["head"]["short"], answer["body"]) == (True, None, None)


def test_a_broker_that_is_away_is_said_and_the_last_state_stays() -> None:
    answer = get(page_of(away="no broker of b:9092 can be reached (timed out)"), "/api/jobs")
    assert answer["head"]["away"] == "no broker of b:9092 can be reached (timed out)"
    assert [line["job"] for line in answer["body"]] == ["job"]


def test_why_airflow_does_not_start_a_worker_changes_though_no_record_does() -> None:
    waits = replace(worker_status("w1", 1), url=URL, awaits=Awaited.PROCESS, condition=Awaited.PROCESS.in_words)
    status = StatusSnapshot(group=record_of({WorkerId("w1"): frozenset()}), workers={WorkerId("w1"): waits})
    page = make_page(StillTopics(jobs=JobsSnapshot(), status=status))
    held_up: dict[str, str] = {}
    page.app.state.world = replace(
        page.app.state.world,
        base_url=lambda: "http://airflow.example",
        held_up=lambda urls, _: {url: held_up[url] for url in urls if url in held_up},
    )
    shown = []
    for why in ("", "its DAG is paused", "its pool spark is full"):
        held_up[URL] = why
        (line,) = get(page, "/api/workers")["body"]["workers"]
        shown.append(line["words"].partition(Awaited.PROCESS.in_words)[2])
    assert shown == ["", ": its DAG is paused", ": its pool spark is full"]


@pytest.mark.parametrize("problem", [NoTopicError("etl.jobs"), TopicError("it is broken")])
def test_why_topics_can_not_be_read(problem: TopicError) -> None:
    assert get(page_of(problem=problem), "/api/jobs")["head"]["problem"] == str(problem)


def test_what_has_not_changed_is_not_sent_twice() -> None:
    topics = StillTopics(jobs=jobs_snapshot(job(), tasks=3))
    page = make_page(topics)
    with page.browser("VIEWER") as browser:
        first = browser.get("/api/jobs", params=GROUP)
        known = {"If-None-Match": first.headers["ETag"]}
        assert browser.get("/api/jobs", params=GROUP, headers=known).status_code == 304
        assert browser.get("/api/jobs", params={**GROUP, "group": "x"}, headers=known).status_code == 200
        topics.away = "gone"
        page.some_time_passes()
        assert browser.get("/api/jobs", params=GROUP, headers=known).status_code == 200


def test_the_head_is_made_once_for_all_views(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(group: str, jobs: JobsSnapshot, status: StatusSnapshot, *, now_ms: int) -> GroupInShort:
        made.append(group)
        return group_in_short(group, jobs, status, now_ms=now_ms)

    monkeypatch.setattr(watching, "group_in_short", counted)
    page = page_of()
    for path in ("/api/workers", "/api/jobs", "/api/tasks", "/api/groups"):
        get(page, path)
    assert made == ["etl"]


def test_that_a_delay_is_over_is_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000]
    monkeypatch.setattr(watching, "wall_ms", lambda: now[0])
    record = record_of(delay_ms=60_000, memory=Memory(deadline_ms=61_000))
    page = make_page(StillTopics(status=StatusSnapshot(group=record)))
    group = page.cluster.groups["etl"]
    versions = []
    for now[0] in (1_000, 60_999, 61_001, 90_000):
        page.some_time_passes()
        versions.append(group.seen().version)
    assert versions[0] == versions[1] != versions[2] == versions[3]


def test_a_page_of_tasks() -> None:
    page = get(page_of(), "/api/tasks", state="failed", order="took", size=2)["body"]
    assert [line["label"] for line in page["lines"]] == ["job:1"]
    assert (page["found"], page["tasks"]) == (1, 3)
    assert page["counts"] == {"finished": 1, "failed": 1, "unassigned": 1}


@pytest.mark.parametrize("wrong", [{"size": 10_000}, {"page": -1}, {"order": "colour"}, {"state": "odd"}])
def test_what_can_not_be_asked(wrong: dict[str, Any]) -> None:
    with page_of().browser("VIEWER") as browser:
        assert browser.get("/api/tasks", params={**GROUP, **wrong}).status_code == 422


def test_one_task() -> None:
    task = get(page_of(), "/api/task", job="job", index=1)["body"]
    assert task["line"]["state"] == "failed"
    assert task["message"]
    assert get(page_of(), "/api/task", job="gone", index=1)["body"] is None


def test_the_timeline_is_sent_from_where_the_browser_is() -> None:
    topics = StillTopics()
    page = make_page(topics)
    topics.events.take([Record(b"", encode(rebalance(1).to_json()), 0)])
    assert [get(page, f"/api/{view}")["body"]["reading"] for view in ("timeline", "epochs")] == [True, True]
    topics.events.reached(1)
    assert [get(page, f"/api/{view}")["body"]["reading"] for view in ("timeline", "epochs")] == [False, False]
    first = get(page, "/api/timeline")["body"]
    assert [mark["epoch"] for mark in first["marks"]] == [1]
    assert get(page, "/api/timeline", since=first["changed"])["body"]["origin"] == first["origin"]
    assert [line["epoch"] for line in get(page, "/api/epochs")["body"]["epochs"]] == [1]


def test_who_asked_for_what_the_last_first() -> None:
    topics = StillTopics()
    asked = [
        ActionEvent(action=action, subject="job", by="ann", at_ms=at_ms)
        for at_ms, action in enumerate(("pause", "resume"))
    ]
    page = make_page(topics)
    assert get(page, "/api/epochs")["body"]["actions"] == []
    topics.events.take([Record(b"", encode(event.to_json()), offset) for offset, event in enumerate(asked)])
    actions = get(page, "/api/epochs")["body"]["actions"]
    assert [(line["action"], line["subject"], line["by"]) for line in actions] == [
        ("resume", "job", "ann"),
        ("pause", "job", "ann"),
    ]


def test_the_files_of_the_page() -> None:
    with page_of().browser("VIEWER") as browser:
        page = browser.get("/")
        assert page.headers["Content-Type"].startswith("text/html")
        for name in re.findall(r'(?:src|href)="(static/[^"]+)"', page.text):
            assert "immutable" in browser.get(f"/{name}").headers["Cache-Control"]
        assert browser.get("/static/before/main.js").headers["Cache-Control"] == "private, no-cache"
        assert browser.get("/static/before/..%2Fapp.py").status_code == 404
        known = {"If-None-Match": page.headers["ETag"]}
        assert browser.get("/", headers=known).status_code == 304


def test_a_group_that_the_address_names_is_read_while_the_scripts_are_fetched() -> None:
    page = page_of()
    looked: list[str] = []
    look = page.cluster.look

    def noting(group: str) -> WatchedGroup | None:
        looked.append(group)
        return look(group)

    page.cluster.look = noting  # type: ignore[method-assign]
    with page.browser("VIEWER") as browser:
        for asked in ({"conn": "kafka_default", "group": "etl"}, {"conn": "other", "group": "etl"}, {"group": "etl"}):
            assert browser.get("/", params=asked).status_code == 200
    assert looked == ["etl"]


def test_what_draws_comes_from_its_wheel_and_the_page_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with page_of().browser("VIEWER") as browser:
        assert browser.get(f"/drawing/{bokeh_scripts.SCRIPTS[0]}").status_code == 200
        assert browser.get("/drawing/other.js").status_code == 404
        assert 'data-drawing=""' in browser.get("/").text

        def find_spec(name: str, package: str | None = None) -> None: ...

        monkeypatch.setattr(bokeh_scripts, "find_spec", find_spec)
        assert re.search(r'data-drawing="[^"]*pip install', browser.get("/").text)
        assert browser.get(f"/drawing/{bokeh_scripts.SCRIPTS[0]}").status_code == 404


def test_no_file_of_the_page_makes_markup_or_script_of_text() -> None:
    for path in STATIC.rglob("*.js"):
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", path.read_text()
        )
        assert not found, path.name
    assert not re.findall(r"<script(?![^>]*\bsrc=)|\son\w+=|<style|style=", (STATIC / "index.html").read_text())
