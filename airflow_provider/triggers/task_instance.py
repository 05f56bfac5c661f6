"""What a trigger asks of Airflow about its own task instance."""

from __future__ import annotations

import asyncio
from typing import Any


async def state_of(task_instance: Any) -> str | None:
    """The state of the task instance now, of whichever try; None if it is gone.

    Must not be called while the triggerer shuts down: Airflow then never answers.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    mapped = task_instance.map_index if (task_instance.map_index or 0) >= 0 else None
    states: dict[str, Any] = await asyncio.to_thread(
        RuntimeTaskInstance.get_task_states,
        dag_id=task_instance.dag_id,
        task_ids=[task_instance.task_id],
        run_ids=[task_instance.run_id],
        map_index=mapped,
    )
    state = next(iter(states.get(task_instance.run_id, {}).values()), None)
    return None if state is None else str(getattr(state, "value", state))


async def push_xcom(task_instance: Any, key: str, value: Any) -> None:
    """Leave a value for other tasks. The values that ``TaskSuccessEvent`` takes arrive as text (Airflow 3.3.2)."""
    from airflow.providers.common.compat.sdk import XCom

    await asyncio.to_thread(
        XCom.set,
        key=key,
        value=value,
        dag_id=task_instance.dag_id,
        task_id=task_instance.task_id,
        run_id=task_instance.run_id,
        map_index=task_instance.map_index,
    )
