"""The Airflow plugin. Every part of Airflow loads it; only the API server asks for the page."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin

from airflow_provider.integration.links import SparkGroupLink, airflow_base_url

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX: Final = "/cospark"
_NAME: Final = "Spark groups"


class _Page:
    """The page's application. Its imports take a while, so it is made in a thread when the API server starts, or at the
    first request.
    """

    def __init__(self) -> None:
        self._app: ASGIApp | None = None
        self._making = threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if app is None:
            app = await asyncio.to_thread(self._make)
        await app(scope, receive, send)

    def made_ahead(self, app: ASGIApp) -> ASGIApp:
        """Begin to make the page when Airflow makes its own application, which only the API server does.

        :param app: Airflow's; Airflow takes this method for a middleware, but it adds nothing
        """
        threading.Thread(target=self._make, name="cospark-page-made-ahead", daemon=True).start()
        return app

    def _make(self) -> ASGIApp:
        with self._making:
            app = self._app
            if app is None:
                from airflow_provider.hooks.shown_connections import of_airflow
                from airflow_provider.ui.app import make_app
                from airflow_provider.ui.world import World

                app = self._app = make_app(World(connections=of_airflow()))
            return app


_page: Final = _Page()


def _root() -> str:
    """The path of Airflow's own pages, as browsers see it, with a slash at its end."""
    return f"{urlsplit(airflow_base_url()).path.rstrip('/')}/"


def _view(destination: str, route: str, query: str = "") -> dict[str, Any]:
    return {
        "name": _NAME,
        "href": f"{_root()}{_PREFIX.strip('/')}/{query}",
        "destination": destination,
        "url_route": route,
        "icon": f"{_root()}{_PREFIX.strip('/')}/static/icon.svg",
        "icon_dark_mode": f"{_root()}{_PREFIX.strip('/')}/static/icon-dark.svg",
    }


class CooperativeSparkPlugin(AirflowPlugin):
    """Adds the package's operator links, and the page of groups: among Airflow's pages, and next to each DAG run and
    each task instance.
    """

    name = "cooperative_spark"
    operator_extra_links = [SparkGroupLink()]  # noqa: RUF012  as Airflow declares it
    fastapi_apps = [{"name": _NAME, "app": _page, "url_prefix": _PREFIX}]  # noqa: RUF012
    fastapi_root_middlewares = [{"name": _NAME, "middleware": _page.made_ahead}]  # noqa: RUF012
    external_views = [  # noqa: RUF012
        {**_view("nav", "spark_groups"), "category": "browse"},
        _view("dag_run", "spark_group_of_run", "?dag_id={DAG_ID}&run_id={RUN_ID}"),
        _view(
            "task_instance",
            "spark_group_of_task",
            "?dag_id={DAG_ID}&run_id={RUN_ID}&task_id={TASK_ID}&map_index={MAP_INDEX}",
        ),
    ]
