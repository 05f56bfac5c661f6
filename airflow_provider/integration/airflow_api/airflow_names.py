"""Imports names that Airflow has moved since 3.1. Everything else is imported from ``airflow.sdk``.

Airflow's provider common-compat does the same, but its versions in the constraints of Airflow 3.1.0 to 3.1.6 lack some
of these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        TaskDeferred,
    )
else:
    try:
        from airflow.sdk.configuration import conf
        from airflow.sdk.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSensorTimeout,
            TaskDeferred,
        )
    except ImportError:  # before Airflow 3.2
        from airflow.configuration import conf
        from airflow.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowNotFoundException,
            AirflowSensorTimeout,
            TaskDeferred,
        )

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "TaskDeferred",
    "conf",
]
