"""Why Airflow has not started workers' processes yet, according to its database. Only the API server may ask it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final

from airflow_provider.integration.airflow_api.airflow_teams import team_of
from airflow_provider.integration.airflow_api.task_instance import TaskPage

log: Final = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTask:
    """A task instance that a worker waits for.

    :param team: that of its DAG; None: that has none
    :param slots: how many slots of its pool it takes
    :param open_slots: how many of its pool are free; None: there is no such pool
    """

    state: str | None
    team: str | None = None
    paused: bool = False
    pool: str = ""
    slots: int = 1
    open_slots: float | None = None


_NOT_THERE: Final = HeldTask(state=None)


def why_held(task: HeldTask) -> str:
    """Why Airflow does not start it, in words; empty: nothing is known that holds it back."""
    if task.state == "queued":
        return "it is queued, and its executor has not started it yet"
    if task.state != "scheduled":
        return ""
    if task.paused:
        return "its DAG is paused"
    if task.open_slots is None:
        return f"there is no pool {task.pool}"
    if task.open_slots < task.slots:
        return f"its pool {task.pool} is full"
    return "it is scheduled, and not queued yet: perhaps by a limit of its DAG, or [core] parallelism"


def held_tasks(pages: Set[TaskPage]) -> dict[TaskPage, HeldTask]:
    """Ask Airflow's database about these task instances."""
    from airflow.models.dag import DagModel
    from airflow.models.pool import Pool
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    key = (TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id, TaskInstance.map_index)
    query = (
        select(*key, TaskInstance.state, TaskInstance.pool, TaskInstance.pool_slots, DagModel.is_paused)
        .join(DagModel, DagModel.dag_id == TaskInstance.dag_id)
        .where(
            TaskInstance.dag_id.in_({page.dag_id for page in pages}),
            TaskInstance.run_id.in_({page.run_id for page in pages}),
            TaskInstance.task_id.in_({page.task_id for page in pages}),
        )
    )
    with create_session() as session:
        rows = {tuple(row[:4]): row[4:] for row in session.execute(query)}
        pools = Pool.slots_stats(session=session) if rows else {}
    teams = {dag_id: team_of(dag_id) for dag_id in {page.dag_id for page in pages} & {row[0] for row in rows}}
    return {
        page: HeldTask(
            state=None if state is None else str(getattr(state, "value", state)),
            team=teams[page.dag_id],
            paused=bool(paused),
            pool=pool,
            slots=slots,
            open_slots=pools[pool]["open"] if pool in pools else None,
        )
        for page in pages
        if (row := rows.get((page.dag_id, page.run_id, page.task_id, page.map_index))) is not None
        for state, pool, slots, paused in (row,)
    }


class HeldTasks:
    """Says why tasks are not started. Airflow is asked again after a few seconds, however many people look.

    :param look: asks Airflow
    """

    def __init__(
        self,
        look: Callable[[Set[TaskPage]], Mapping[TaskPage, HeldTask]] = held_tasks,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._clock = clock
        self._known: Mapping[TaskPage, tuple[float, HeldTask]] = {}

    def __call__(self, urls: Iterable[str], team: str | None) -> dict[str, str]:
        """Why these are not started. Records name their pages, and might name any: so a team is told nothing of tasks
        of other DAGs than its own.

        :param urls: the pages of task instances of this Airflow
        :param team: who is told; None: who may see the DAGs of all teams
        """
        pages = {url: page for url in urls if (page := TaskPage.of(url)) is not None}
        now_s = self._clock()
        known = {page: said for page, said in self._known.items() if now_s - said[0] < _LOOK_AGAIN_S}
        asked = set(pages.values()) - known.keys()
        if asked:
            found = self._found(asked)
            known |= {page: (now_s, found.get(page, _NOT_THERE)) for page in asked}
            self._known = known
        of_team = {url: known[page][1] for url, page in pages.items() if team in (None, known[page][1].team)}
        return {url: why for url, task in of_team.items() if (why := why_held(task))}

    def _found(self, asked: Set[TaskPage]) -> Mapping[TaskPage, HeldTask]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return self._look(asked)
        except SQLAlchemyError as failed:
            log.warning("Airflow's database does not say why workers wait: %s", failed)
            return {}
