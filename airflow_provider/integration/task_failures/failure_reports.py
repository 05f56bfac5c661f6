"""Pushes what a failing task leaves in XCom for later tasks, which may run by their trigger rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.integration.airflow_metadata.storable import storable
from airflow_provider.kafka.settings import SettingsError
from airflow_provider.kafka.topics.errors import TopicError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import BaseOperator, Context


RESUMED_TO_FAIL: Final = "__fail__"
"""The method that Airflow resumes when a deferred task has timed out, or its trigger has failed."""


def leave_report(operator: BaseOperator, context: Context, report: Mapping[str, Any]) -> None:
    """Push the task's return value: Airflow itself does this only if the task succeeds."""
    if operator.do_xcom_push and report:
        context["ti"].xcom_push(key="return_value", value=storable(dict(report)))


def leave_present_report(
    operator: BaseOperator, context: Context, look: Callable[[], Mapping[str, Any] | None]
) -> None:
    """As :func:`leave_report`, for a task that has timed out. It fails with the timeout even if the topics can't be
    read.
    """
    try:
        leave_report(operator, context, look() or {})
    except (TopicError, SettingsError) as failed:
        operator.log.warning("No return value is pushed, because the group's topics can't be read: %s", failed)
