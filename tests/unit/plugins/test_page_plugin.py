"""How Airflow gets the page: what the plugin says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse
from fastapi.testclient import TestClient

import airflow_provider.ui
from airflow_provider.plugins import cooperative_spark
from airflow_provider.plugins.cooperative_spark import CooperativeSparkPlugin
from airflow_provider.provider_info import get_provider_info

STATIC = Path(airflow_provider.ui.__file__).parent / "static"


def test_it_stands_in_the_navigation_beside_runs_and_beside_tasks() -> None:
    views = [ExternalViewResponse.model_validate(view) for view in CooperativeSparkPlugin.external_views]
    assert [view.destination for view in views] == ["nav", "dag_run", "task_instance"]
    assert len({view.url_route for view in views}) == 3
    (app,) = CooperativeSparkPlugin.fastapi_apps
    for view in views:
        assert view.href.startswith(f"{app['url_prefix']}/")
        for icon in (view.icon, view.icon_dark_mode):
            assert icon is not None
            assert (STATIC / icon.removeprefix(f"{app['url_prefix']}/static/")).is_file()


@pytest.mark.parametrize(
    ("base", "root"), [("", "/"), ("http://airflow.example", "/"), ("https://example.com/air/flow/", "/air/flow/")]
)
def test_it_is_found_where_airflow_is(monkeypatch: pytest.MonkeyPatch, base: str, root: str) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    assert cooperative_spark._root() == root


@pytest.mark.slow
def test_its_application_is_made_when_it_is_asked_for_something() -> None:
    (app,) = CooperativeSparkPlugin.fastapi_apps
    assert TestClient(app["app"]).get("/").status_code == 401


def test_which_clusters_it_shows_can_be_configured() -> None:
    assert "page_connections" in get_provider_info()["config"]["cooperative_spark"]["options"]
