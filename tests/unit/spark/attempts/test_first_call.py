"""None of a job's code is called before others know that it is about to be."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from attempt_jobs import order
from fake_session import FakeSession

from airflow_provider.spark.attempts.run_attempt import run_attempt
from airflow_provider.spark.job.fencing import AttemptGuard, EndlessLease
from airflow_provider.spark.runner import RunnerEvent, TaskFailed, TaskFinished, TaskStarted

RUDE = """
from airflow_provider.spark.job import SparkJob
import {name} as me

called = []
called.append("import")

class Rude(SparkJob):
    def __init__(self):
        me.called.append("init")
    def plan(self, job):
        me.called.append("plan")
        return [{{}}]
    def lineage(self, task):
        me.called.append("lineage")
        raise ValueError
    def run(self, spark, task):
        me.called.append("run")
"""


@pytest.mark.parametrize(
    ("index", "calls"), [(0, ["import", "init", "lineage", "run"]), (-1, ["import", "init", "plan"])]
)
def test_none_of_a_jobs_code_is_called_before_its_start_is_stored(
    index: int, calls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends the process is a suspect only if others know that it was running."""
    name = f"rude_job_{index + 1}"
    (tmp_path / f"{name}.py").write_text(RUDE.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    guard, said = AttemptGuard(EndlessLease()), []

    def store(event: RunnerEvent) -> None:
        said.append(event)
        assert name not in sys.modules
        guard.proceed()

    rude = replace(order("rude", index), entry_point=f"{name}:Rude")
    last = run_attempt(rude, guard, FakeSession(), [name], store)
    assert isinstance(last, TaskFinished), last
    assert said == [TaskStarted(order=rude)]
    assert sys.modules.pop(name).called == calls


def test_an_entry_point_that_is_not_allowed_needs_no_spark_to_be_refused() -> None:
    session = FakeSession()
    last = run_attempt(order("add"), AttemptGuard(EndlessLease()), session, ["jobs"], lambda _: None)
    assert isinstance(last, TaskFailed)
    assert (session.opened, session.closed) == (0, 1)
