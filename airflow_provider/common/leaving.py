"""What a task that fails leaves for those that come after it by a trigger rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.kafka.settings import SettingsError
from airflow_provider.topics.errors import TopicError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import BaseOperator, Context


RESUMED_TO_FAIL: Final = "__fail__"
"""What Airflow names as the method when a deferred task's time is over, or its trigger has failed."""


def leave_report(operator: BaseOperator, context: Context, report: Mapping[str, Any]) -> None:
    """Push what the task would have returned; Airflow does that itself only if the task succeeds."""
    if operator.do_xcom_push and report:
        context["ti"].xcom_push(key="return_value", value=dict(report))


def leave_present_report(
    operator: BaseOperator, context: Context, look: Callable[[], Mapping[str, Any] | None]
) -> None:
    """The same for a task whose time is over. It fails with that, whether or not the topics can be read now."""
    try:
        leave_report(operator, context, look() or {})
    except (TopicError, SettingsError) as failed:
        operator.log.warning("No report is left, because the group's topics can't be read: %s", failed)
