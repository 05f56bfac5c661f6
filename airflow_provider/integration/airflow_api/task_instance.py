"""Asks Airflow about task instances, for operators and triggers, and parses the addresses of their pages in its UI."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from asgiref.sync import sync_to_async

from airflow_provider.integration.airflow_metadata.storable import storable

OVER: Final = frozenset({None, "success", "failed", "skipped", "removed", "upstream_failed"})
"""The states of a task instance that has ended; None: there is none."""

TOLD_TO_END: Final = "its process was told to end, and no user has ended its task"
"""By a shutdown, an eviction, or a time limit."""

_PAGE: Final = re.compile(
    r"(?P<airflow>https?://.+)/dags/(?P<dag_id>[^/?]+)/runs/(?P<run_id>[^/?]+)/tasks/(?P<task_id>[^/?]+)"
    r"(?:/mapped/(?P<map_index>\d+))?(?:\?.*)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """The task instance that a page in Airflow's UI shows, in any of its tries.

    :param airflow: the base URL of that Airflow
    :param map_index: -1 if it is not mapped
    """

    airflow: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int

    @classmethod
    def of(cls, url: str) -> TaskPage | None:
        """Parse an address; None if it is not that of such a page."""
        match = _PAGE.fullmatch(url)
        if match is None:
            return None
        return cls(
            airflow=match["airflow"],
            dag_id=unquote(match["dag_id"]),
            run_id=unquote(match["run_id"]),
            task_id=unquote(match["task_id"]),
            map_index=int(match["map_index"] or -1),
        )

    def state(self) -> str | None:
        """The state of the task instance now; None if there is none."""
        return _state(self.dag_id, self.run_id, self.task_id, self.map_index)


def who_acts(context: Any) -> str:
    """Who acts, for a group's events: the DAG's task, and the run."""
    ti = context["ti"]
    return f"{ti.dag_id}.{ti.task_id} ({context['run_id']})"


def why_ended(state: str | None) -> str:
    """Why Airflow ends a task, as far as the state of its task instance tells: only a user is called one."""
    match state:
        case "running" | "queued" | "deferred":
            return TOLD_TO_END
        case "skipped":
            return "its task was skipped, by a user or by the dagrun_timeout of its DAG"
        case "success" | "failed":
            return f"its task was marked {state}"
        case "up_for_retry" | "up_for_reschedule" | "scheduled":
            return "Airflow starts its task anew"
        case None | "removed":
            return "its task was deleted"
        case _:
            return "its task was cleared by a user"


async def state_of(task_instance: Any) -> str | None:
    """The present state of the task instance, in any of its tries; None if it is gone.

    It is asked in a thread of asgiref's: before Airflow 3.3, only what such threads ask is passed to the triggerer's
    loop. Must not be called while the triggerer shuts down, because Airflow then never answers.
    """
    ti = task_instance
    return await sync_to_async(_state, thread_sensitive=False)(ti.dag_id, ti.run_id, ti.task_id, ti.map_index)


def _state(dag_id: str, run_id: str, task_id: str, map_index: int | None) -> str | None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states: dict[str, Any] = RuntimeTaskInstance.get_task_states(
        dag_id=dag_id,
        task_ids=[task_id],
        run_ids=[run_id],
        map_index=map_index if map_index is not None and map_index >= 0 else None,
    )
    state = next(iter(states.get(run_id, {}).values()), None)
    return None if state is None else str(getattr(state, "value", state))


async def push_xcom(task_instance: Any, key: str, value: Any) -> None:
    """Store a value for other tasks. Values given to ``TaskSuccessEvent`` would arrive as text (Airflow 3.3.2)."""
    from airflow.sdk.execution_time.xcom import XCom

    await sync_to_async(XCom.set, thread_sensitive=False)(
        key=key,
        value=storable(value),
        dag_id=task_instance.dag_id,
        task_id=task_instance.task_id,
        run_id=task_instance.run_id,
        map_index=task_instance.map_index,
    )
