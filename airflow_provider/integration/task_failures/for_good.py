"""What can't get better by itself fails a task at once, without Airflow's retries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.kafka.topics.errors import LastingError


@contextmanager
def failing_for_good() -> Iterator[None]:
    """For the block in which a task uses its parameters and its connection.

    :raises AirflowFailException: for wrong parameters and settings, and whatever else lasts until somebody acts
    """
    try:
        yield
    except (ValueError, LastingError) as wrong:
        raise AirflowFailException(str(wrong)) from wrong
