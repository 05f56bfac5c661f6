"""Many ask for the same together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from airflow_values import job, jobs_snapshot
from fastapi.testclient import TestClient
from page_bench import StillTopics, make_page
from waiting import DEADLINE_S

from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.routes import questions
from airflow_provider.ui.shared_reading import waiting_limit
from airflow_provider.ui.shared_reading.waiting_limit import MOST_IN_TURN, Turns
from airflow_provider.ui.shared_reading.watching import WatchedGroup
from airflow_provider.ui.views.jobs import JobLine, job_lines

GROUP = {"conn": "kafka_default", "group": "etl"}


def test_what_many_wait_for_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    asked, go_on = threading.Semaphore(0), threading.Event()
    working = WatchedGroup.working

    @contextmanager
    def noted(group: WatchedGroup) -> Iterator[None]:
        asked.release()
        with working(group):
            yield

    def slow(jobs: JobsSnapshot, status: StatusSnapshot) -> tuple[JobLine, ...]:
        made.append(1)
        assert go_on.wait(DEADLINE_S)
        return job_lines(jobs, status)

    monkeypatch.setattr(WatchedGroup, "working", noted)
    monkeypatch.setattr(questions, "job_lines", slow)
    page = make_page(StillTopics(jobs=jobs_snapshot(job(), tasks=3)))
    with page.browser("VIEWER"), TestClient(page.app) as browser, ThreadPoolExecutor(MOST_IN_TURN) as threads:

        def look() -> int:
            return int(browser.get("/api/jobs", params=GROUP).status_code)

        try:
            looking = [threads.submit(look) for _ in range(MOST_IN_TURN)]
            assert all(asked.acquire(timeout=DEADLINE_S) for _ in looking)
        finally:
            go_on.set()
        assert {looked.result() for looked in looking} == {200}
    assert len(made) == 1


def test_if_too_many_wait_the_last_answer_is_given_or_one_is_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_limit, "MOST_IN_TURN", 1)
    topics = StillTopics(jobs=jobs_snapshot(job(), tasks=3))
    page = make_page(topics)
    with page.browser("VIEWER") as browser:
        first = browser.get("/api/jobs", params=GROUP)
        topics.away = "gone"
        page.some_time_passes()
        with page.cluster.groups["etl"].working():
            last = browser.get("/api/jobs", params=GROUP)
            assert (last.status_code, last.content) == (200, first.content)
            same = browser.get("/api/jobs", params=GROUP, headers={"If-None-Match": first.headers["ETag"]})
            assert same.status_code == 304
            none = browser.get("/api/tasks", params=GROUP)
            assert (none.status_code, none.headers["Retry-After"]) == (503, "1")
            assert browser.get("/api/groups").status_code == 200
        assert browser.get("/api/jobs", params=GROUP).json()["head"]["away"] == "gone"
        assert browser.get("/api/tasks", params=GROUP).status_code == 200


def test_who_fails_gives_its_place_in_the_queue_back() -> None:
    places = Turns()
    for _ in range(MOST_IN_TURN + 1):
        with pytest.raises(KeyError), places.mine():
            raise KeyError
