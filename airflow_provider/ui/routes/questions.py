"""The routes of a page's questions about groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request, Response

from airflow_provider.state.records import TaskState
from airflow_provider.ui.access.rights import Seeing
from airflow_provider.ui.access.visits import Visit
from airflow_provider.ui.routes.pages import Clusters, GroupPage, begun, clusters, head_of
from airflow_provider.ui.shared_reading.answers import Question
from airflow_provider.ui.shared_reading.waiting_limit import BusyError
from airflow_provider.ui.shared_reading.watching import Seen, WatchedGroup
from airflow_provider.ui.views.jobs import job_lines
from airflow_provider.ui.views.learners import learners_view
from airflow_provider.ui.views.tasks import LARGEST_PAGE, TaskOrder, TaskQuery, task_detail, task_page
from airflow_provider.ui.views.timeline import history, picture
from airflow_provider.ui.views.workers import pages_of_waiting, workers_view
from airflow_provider.ui.world import ItsWorld
from airflow_provider.values.model import HIGHEST_INDEX, TaskId

router: Final = APIRouter(prefix="/api")


Text = Annotated[str, Query(max_length=500)]


class Asked:
    """A question about one group.

    :param conn: the name of its connection on the page
    :ivar team: whose DAGs alone can use that; None: those of every team
    """

    def __init__(self, request: Request, visit: Visit, conn: str, group: str) -> None:
        name, settings = visit.connection(conn, group)
        self._question = Question(request, settings)
        self._answers = visit.world.answers
        self.conn = conn
        self.team = name.team
        self.group = group
        self.watched: WatchedGroup | None = visit.world.watches.of(settings).look(group)

    def answer(self, make: Callable[[WatchedGroup, Seen], object], version: str = "") -> Response:
        """Answer it.

        :param make: makes what the page shows below the group's head
        :param version: of anything else that it is made of
        """
        watched, answers, question = self.watched, self._answers, self._question
        if watched is None:
            return answers.answer(question, "", lambda: begun(self.conn, self.group))

        def page(seen: Seen) -> GroupPage:
            body = make(watched, seen) if seen.whole else None
            return GroupPage(head=head_of(self.conn, watched, seen), body=body)

        known = answers.known(question, f"{watched.seen().version}.{version}")
        if known is not None:
            return known
        try:
            with watched.working():
                seen = watched.seen()  # it may have changed while this waited, and its answer be in the cache
                return answers.answer(question, f"{seen.version}.{version}", lambda: page(seen))
        except BusyError:
            return answers.last(question)


def asked(
    request: Request,
    visit: Seeing,
    conn: Annotated[str, Query(min_length=1, max_length=500)],
    group: Annotated[str, Query(min_length=1, max_length=250)],
) -> Asked:
    """Make an :class:`Asked`. A function, since the FastAPI of Airflow 3.1's constraints can't read a class's
    annotations.
    """
    return Asked(request, visit, conn, group)


About = Annotated[Asked, Depends(asked)]


@router.get("/groups")
def all_groups(request: Request, visit: Seeing) -> Response:
    """All groups of all clusters that the user may see, in short."""
    world, connections = visit.world, visit.connections()
    question = Question(request, tuple(connections.items()))
    try:
        with world.listing.mine():
            found: Clusters = clusters(connections, world.watches)
            return world.answers.answer(question, found.version, lambda: found)
    except BusyError:
        return world.answers.last(question)


@router.get("/workers")
def its_workers(about: About, world: ItsWorld) -> Response:
    base_url = world.base_url()
    waiting = pages_of_waiting(about.watched.seen().status, base_url) if about.watched else ()
    held_up = world.held_up(waiting, about.team)
    version = f"{sorted(held_up.items())}"
    return about.answer(lambda _, seen: workers_view(seen.jobs, seen.status, base_url, held_up), version)


@router.get("/jobs")
def its_jobs(about: About) -> Response:
    return about.answer(lambda _, seen: job_lines(seen.jobs, seen.status))


@router.get("/learners")
def its_learners(about: About) -> Response:
    return about.answer(lambda _, seen: learners_view(seen.jobs, seen.status))


@router.get("/tasks")
def its_tasks(
    about: About,
    *,
    text: Text = "",
    state: TaskState | None = None,
    job: Text = "",
    worker: Text = "",
    order: TaskOrder = TaskOrder.TASK,
    descending: bool = False,
    page: Annotated[int, Query(ge=0)] = 0,
    size: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = 50,
) -> Response:
    query = TaskQuery(
        text=text, state=state, job=job, worker=worker, order=order, descending=descending, page=page, size=size
    )
    return about.answer(lambda watched, seen: task_page(watched.tasks(seen), query, seen.status))


@router.get("/task")
def one_task(about: About, job: Text, index: Annotated[int, Query(ge=-1, le=HIGHEST_INDEX)]) -> Response:
    task = TaskId(job, index)
    attempts = about.watched.events().attempts_of(task) if about.watched else ()
    version = ".".join(f"{attempt.changed}" for attempt in attempts[-1:])
    return about.answer(lambda _, seen: task_detail(task, seen.jobs, seen.status, attempts), version)


@router.get("/timeline")
def its_timeline(about: About, since: Annotated[int, Query(ge=0)] = 0) -> Response:
    """The changes of the timeline since then."""
    if about.watched is None:
        return about.answer(lambda _, __: None)
    feed = about.watched.events()
    reading = not feed.whole
    timeline = feed.timeline(since)
    return about.answer(
        lambda _, seen: picture(feed.origin, timeline, seen.jobs, seen.status, reading=reading),
        f"{timeline.changed}.{reading:d}",
    )


@router.get("/epochs")
def its_epochs(about: About) -> Response:
    if about.watched is None:
        return about.answer(lambda _, __: None)
    feed = about.watched.events()
    reading = not feed.whole
    timeline = feed.timeline(HIGHEST_INDEX)
    return about.answer(lambda _, __: history(timeline, reading=reading), f"{timeline.changed}.{reading:d}")
