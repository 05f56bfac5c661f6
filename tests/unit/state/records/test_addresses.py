"""Addresses in records come from anybody who may write them: which of them become links."""

from __future__ import annotations

import pytest

from airflow_provider.state.records.addresses import address_within, web_address

TASK = "dags/d/runs/manual__2026-01-01T00:00:00+00:00/tasks/w?try_number=1"


@pytest.mark.parametrize(
    "base", ["https://airflow.example", "https://airflow.example/", "https://Airflow.example/team/"]
)
def test_what_lies_under_the_base_is_a_link(base: str) -> None:
    runs = ("/tägliche/", "/a..b;c/", "/a%2Fb/", "/50%25/", "/...;/")
    for path in (TASK, *(TASK.replace("/d/", run) for run in runs)):
        url = f"{base.rstrip('/')}/{path}"
        assert address_within(base, url) == url


@pytest.mark.parametrize(
    "url",
    [
        f"https://evil.example/{TASK}",
        f"http://airflow.example/team/{TASK}",
        f"https://airflow.example:8443/team/{TASK}",
        f"https://airflow.example.evil.example/team/{TASK}",
        f"https://airflow.example@evil.example/team/{TASK}",
        f"https://evil.example\\@airflow.example/team/{TASK}",
        f"https://airflow.example/teams/{TASK}",
        "https://airflow.example/team/../auth/logout",
        "https://airflow.example/team/%2e%2E/auth/logout",
        "https://airflow.example/team/..\\auth",
        "https://airflow.example/team/..%2fauth/logout",
        "https://airflow.example/team/x%2F..%2F..%2Fauth/logout",
        "https://airflow.example/team/..%5cauth/logout",
        "https://airflow.example/team/..;/auth/logout",
        "https://airflow.example/team/..;x=1/auth/logout",
        "https://airflow.example/team/%2e%2e%3b/auth/logout",
        "https://airflow.example/team/%252e%252e/auth/logout",
        "https://airflow.example/team/..%252fauth/logout",
        "https://airflow.example/team/..%00/auth/logout",
        "https://airflow.example/team/..%20/auth/logout",
        "https://airflow.example/team/%c0%ae%c0%ae/auth/logout",
        "https://airflow.example/\tteam/x",
        f" https://airflow.example/team/{TASK}",
        "//airflow.example/team/x",
        "/team/x",
        "javascript:alert(1)//https://airflow.example/team/",
        "https://[::1/team/",
        "",
    ],
)
def test_what_lies_elsewhere_as_browsers_read_it_is_none(url: str) -> None:
    assert address_within("https://airflow.example/team", url) == ""


def test_where_no_base_is_known_nothing_is_a_link() -> None:
    assert address_within("", f"https://airflow.example/{TASK}") == ""


@pytest.mark.parametrize("url", ["http://driver:4040", "https://10.0.0.1/proxy/app?x=1", "http://[::1]:4040/jobs/"])
def test_sparks_own_page_may_be_on_any_host(url: str) -> None:
    assert web_address(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "ftp://driver",
        "javascript:alert(1)",
        "http://",
        "http://a b/",
        "http://x%zz/",
        "http://u:p@h/",
        "http://h:99999/",
    ],
)
def test_but_a_browser_must_be_able_to_show_which(url: str) -> None:
    assert web_address(url) == ""
