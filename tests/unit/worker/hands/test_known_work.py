"""By what a task knows which work it does, so that it can find what it has begun elsewhere."""

from __future__ import annotations

from typing import Any

from execution_script import A0, Script

from airflow_provider.spark.attempts.run_attempt import task_context
from airflow_provider.spark.job import TaskContext
from airflow_provider.worker.hands.orders import order_of
from airflow_provider.worker.tasks import commands


def started(script: Script) -> TaskContext:
    (start,) = [command for command in script.give(A0) if isinstance(command, commands.StartAttempt)]
    unused: Any = None

    class Session:
        share = unused

    session: Any = Session()
    return task_context(order_of(start.run, root=None, group_id="g"), unused, session)


def test_a_job_that_was_removed_and_submitted_again_is_other_work() -> None:
    removed = Script()
    removed.define(removal=7)
    first, same, again = (started(script).fingerprint for script in (Script(), Script(), removed))
    assert first == same != ""
    assert again not in (first, "")
