"""What Airflow has moved since 3.1, from where it is now. Everything else is imported from ``airflow.sdk``.

Airflow's provider common-compat has more of this, but that in the constraints of Airflow 3.1.0 to 3.1.6 not all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout, TaskDeferred
else:
    try:
        from airflow.sdk.configuration import conf
        from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout, TaskDeferred
    except ImportError:  # before Airflow 3.2
        from airflow.configuration import conf
        from airflow.exceptions import AirflowException, AirflowFailException, AirflowSensorTimeout, TaskDeferred

__all__ = ["AirflowException", "AirflowFailException", "AirflowSensorTimeout", "TaskDeferred", "conf"]
