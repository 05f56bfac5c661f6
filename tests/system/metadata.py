"""What stands in an Airflow's database, for what its API does not tell."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from sqlalchemy import Select, create_engine
from sqlalchemy.pool import NullPool

from demo.airflow import LocalAirflow


def stored(airflow: LocalAirflow, query: Select[Any]) -> Sequence[Any]:
    """The first column of what the query finds."""
    engine = create_engine(airflow.database.url(lock_timeout_s=60), poolclass=NullPool)
    with closing(engine.connect()) as connection:
        return connection.execute(query).scalars().all()
