"""What no page sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow_values import job, jobs_snapshot
from page_bench import StillTopics, make_page

from airflow_provider.ui.access.rights import ACTING_HEADER
from airflow_provider.ui.bodies import LARGEST_BODY

NAMED = '"conn": "kafka_default", "group": "etl"'
HEADERS = {ACTING_HEADER: "1", "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "body"),
    [
        ("scale", f'{{{NAMED}, "workers": NaN}}'),
        ("scale", f'{{{NAMED}, "workers": -Infinity}}'),
        ("scale", f'{{{NAMED}, "workers": 1e999}}'),
        ("pause", f'{{{NAMED}, "job": "\\ud800", "defined_at": 0}}'),
        ("pause", f'{{{NAMED}, "\\udc00": 1}}'),
        ("level", f'{{{NAMED}, "logger": "a\\ud800", "level": "DEBUG"}}'),
        ("submit", f'{{{NAMED}, "job": "a", "entry_point": "a:b", "config": {{"rows": NaN}}}}'),
        ("submit", f'{{{NAMED}, "job": "a", "entry_point": "a:b", "config": {{"\\ud800": 1}}}}'),
        ("submit", f'{{{NAMED}, "job": "a", "entry_point": "a:b", "run_key": "\\ud800"}}'),
        ("alter", f'{{{NAMED}, "job": "job", "defined_at": 0, "config": {{"rows": "\\ud800"}}}}'),
        ("rebalance", b"\xff"),
        ("rebalance", "[" * 100_000),
        ("rebalance", ""),
        ("rebalance", "null"),
        ("rebalance", f'{{{NAMED}, "group": {"9" * 5_000}}}'),
    ],
)
def test_what_is_no_json_is_refused_in_words(act: str, body: Any) -> None:
    page = make_page(StillTopics(jobs=jobs_snapshot(job(), tasks=3)))
    with page.browser("USER") as browser:
        answer = browser.post(f"/api/act/{act}", content=body, headers=HEADERS)
        typeless = browser.post(f"/api/act/{act}", content=body, headers={**HEADERS, "Content-Type": "text/plain"})
    assert (answer.status_code in (400, 422), typeless.status_code) == (True, 422), answer.text
    assert json.loads(answer.text)["detail"]
    assert not page.begun


@pytest.mark.parametrize("group", ["", "..", "a b", "g" * 300])
def test_nothing_is_done_in_a_group_whose_name_no_topic_can_have(group: str) -> None:
    page = make_page(StillTopics(jobs=jobs_snapshot(job(), tasks=3)))
    named = {"conn": "kafka_default", "group": group, "job": "job", "defined_at": 0}
    body = {**named, "workers": 1, "worker": "w1", "action": "stop", "logger": "a", "entry_point": "a:b"}
    acts = {path for method, path in page.routes if method == "POST"}
    with page.browser("USER") as browser:
        answers = [browser.post(path, json=body, headers=HEADERS) for path in acts]
    assert {answer.status_code for answer in answers} == {404}, [answer.text for answer in answers]
    assert all(answer.json()["detail"].startswith(f"group: {group!r} must be 1 to ") for answer in answers)
    assert not page.begun


@pytest.mark.parametrize("more", [{"map_index": 10**30}, {"map_index": -2}, {"task_id": "a\x00"}, {"run_id": "\x00"}])
def test_the_database_is_not_asked_for_what_it_can_not_have(more: dict[str, Any]) -> None:
    page = make_page()
    with page.browser("USER") as browser:
        answer = browser.get("/api/find", params={"dag_id": "d", "run_id": "r", **more})
    assert answer.status_code == 422, answer.text


@pytest.mark.parametrize("role", [None, "ADMIN"])
def test_no_more_of_a_body_is_read_than_any_form_has(role: str | None) -> None:
    """Also of who has not logged in, and who does not say how much is to come."""
    page = make_page(StillTopics())
    with page.browser(role) as browser:
        answers = [
            browser.request(method, path, content=b" " * (LARGEST_BODY + 1), headers=HEADERS)
            for method, path in page.routes
            if method != "GET"
        ]
        streamed = browser.post("/api/act/rebalance", content=iter([b" " * LARGEST_BODY, b" "]), headers=HEADERS)
    assert answers
    assert {answer.status_code for answer in (*answers, streamed)} == {413}
