"""Values of job code in PostgreSQL, which takes less than other databases of Airflow's. By its own client, without
Airflow: what is shown is that the server takes each value, not how Airflow's driver sends it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator

import pytest
from job_values import BAD, some_value
from postgresql import needs_postgresql

from airflow_provider.integration.airflow_metadata.storable import storable
from demo.postgres import LocalPostgres

pytestmark = [pytest.mark.thorough, needs_postgresql]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPostgres]:
    with LocalPostgres(tmp_path_factory.mktemp("postgresql") / "log") as server:
        yield server


def errors(database: LocalPostgres, statements: Iterable[str]) -> list[str]:
    """What the server has against these statements."""
    return database.psql(";\n".join(statements) + ";\n")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_two_thousand_values_of_job_code_are_taken(database: LocalPostgres) -> None:
    assert not errors(database, ["CREATE TABLE stored (seed int, xcom jsonb, extra json, text text)"])

    def statements() -> Iterator[str]:
        for seed in range(2_000):
            value = json.dumps(storable(some_value(random.Random(seed))))
            text = str(storable(json.dumps(value, ensure_ascii=False)))
            yield f"INSERT INTO stored VALUES ({seed}, {_quoted(value)}, {_quoted(value)}, {_quoted(text)})"
        yield "DO $$ BEGIN IF (SELECT count(*) FROM stored) <> 2000 THEN RAISE 'some are missing'; END IF; END $$"

    assert errors(database, statements()) == []


@pytest.mark.parametrize(
    ("kind", "value"), [("jsonb", json.dumps(BAD)), ("jsonb", "NaN"), ("text", "half of a pair: \ud800")]
)
def test_without_the_door_it_refuses_them(database: LocalPostgres, kind: str, value: str) -> None:
    assert any("ERROR" in line for line in errors(database, [f"SELECT {_quoted(value)}::{kind}"]))
