"""The application. Every route first checks that this user may see it, and that the request is JSON; which actions are
refused is noted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Depends, FastAPI, Request, Response

from airflow_provider.ui.access.refused_acts import note_refused
from airflow_provider.ui.access.rights import may_see
from airflow_provider.ui.bodies import LimitedBodies, is_json
from airflow_provider.ui.routes import action_routes, defining, files, finding, questions
from airflow_provider.ui.world import World


def make_app(world: World) -> FastAPI:
    app = FastAPI(
        title="Cooperative Spark",
        dependencies=[Depends(note_refused), Depends(may_see), Depends(is_json)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.world = world
    for router in (files.router, questions.router, finding.router, action_routes.router, defining.router):
        app.include_router(router)

    app.add_middleware(LimitedBodies)

    @app.middleware("http")
    async def with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers.update(files.HEADERS)
        return response

    return app
