"""SQL files with a real Spark: statements, parameters, order, and what a task says of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from runner_bench import Events, order_of

from airflow_provider.jobs.sql_files import SqlFiles as SqlFiles  # so that the runner may run it as this module's
from airflow_provider.spark.runner import TaskFailed, TaskFinished
from airflow_provider.spark.runners.local import LocalRunner
from airflow_provider.values.model import PLANNER_INDEX

pytestmark = pytest.mark.usefixtures("spark_application")

order = partial(order_of, __name__, "SqlFiles")

ORDERS = """
CREATE TABLE IF NOT EXISTS sql_files_orders (id BIGINT, note STRING) USING parquet;  -- of this test; only

INSERT OVERWRITE sql_files_orders
SELECT id, concat('a;b', `;`) /* not; here */ FROM (SELECT id, :note AS `;` FROM range(100)) WHERE id < :least;
"""
CHECKED = """
-- after: orders.sql
CREATE OR REPLACE TEMPORARY VIEW counted AS SELECT count(*) AS n, max(note) AS note FROM sql_files_orders;
SELECT assert_true(n = :least AND note = concat('a;b', :note)) FROM counted;
"""
SCRIPT = """
BEGIN
  DECLARE n INT DEFAULT 1;
  SET n = n + 1;
  SELECT assert_true(n = 2 AND array_contains(:shops, 'b'));
END;
"""
REFUSED = "SELECT 1;\n\nSELECT no_such_column FROM range(1);\n"
FALSE = "SELECT assert_true(count(*) = 0) FROM range(:least);\n"


async def run_all(runner: LocalRunner, events: Events, **config: Any) -> dict[str, Any]:
    """Plan the job and run its tasks, one after the other; the last event of each, by its name."""
    planner = order(PLANNER_INDEX, **config)
    await runner.start(planner)
    ended = {}
    plan: Any = await events.result(planner.task)
    for index, task_config in enumerate(plan):
        task = order(index, **task_config)
        await runner.start(task)
        ended[task_config["name"]] = await events.last(task.task)
    return ended


async def test_each_file_runs_with_its_parameters_and_after_those_that_it_names(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    for name, text in {"orders": ORDERS, "checked": CHECKED, "script": SCRIPT}.items():
        (tmp_path / f"{name}.sql").write_text(text)
    parameters = {"least": 7, "note": "it's; -- no SQL", "shops": ["a", "b"], "unused": None}
    ended = await run_all(runner, events, folder=str(tmp_path), parameters=parameters)
    assert {name: type(last) for name, last in ended.items()} == {
        "orders.sql, checked.sql": TaskFinished,
        "script.sql": TaskFinished,
    }, ended
    results = {name: last.result for name, last in ended.items()}
    assert {name: result["statements"] for name, result in results.items()} == {
        "orders.sql, checked.sql": 4,
        "script.sql": 1,
    }
    assert all(result["rows_affected"] is None for result in results.values()), "Parquet tables do not say it"


async def test_a_statement_that_spark_refuses_is_named_and_a_check_that_is_false_fails(
    runner: LocalRunner, events: Events, tmp_path: Path
) -> None:
    for name, text in {"refused": REFUSED, "false": FALSE}.items():
        (tmp_path / f"{name}.sql").write_text(text)
    ended = await run_all(runner, events, folder=str(tmp_path), parameters={"least": 3})
    refused, false = ended["refused.sql"], ended["false.sql"]
    assert isinstance(refused, TaskFailed), refused
    assert "refused.sql, line 3 (statement 2 of 2) can't be run" in refused.error
    assert "UNRESOLVED_COLUMN" in refused.error
    assert isinstance(false, TaskFailed), false
    assert "is not true" in false.error
