"""What a StatsD server hears of a real Airflow: from the triggerer while a worker is deferred, and from its task."""

from __future__ import annotations

import pytest
from airflow_group import Group
from mailbox_statsd import Mailbox
from statsd_server import Line

pytestmark = pytest.mark.side_by_side


def test_the_triggerer_speaks_while_the_worker_is_deferred_and_its_task_while_it_runs(
    group: Group, statsd: Mailbox
) -> None:
    def heard(metric: str, *tags: str) -> list[Line]:
        return statsd.named(".".join(("airflow", metric, group.name, *tags)))

    run = group.start("until_drained")
    group.wait_for_members("until_drained.w1")
    group.deferred("until_drained", run, "w1")
    before = len(heard("cospark.group.members"))
    told = group.api.wait_until(
        lambda: heard("cospark.group.members")[before + 2 :],
        timeout_s=60,
        what=lambda: "nobody says how the group of a deferred worker is",
    )
    triggerer = {line.port for line in told[-1:]}
    assert told[-1].value == 1

    submitted = group.start("bounded_job")
    group.api.wait_for_run("bounded_job", submitted)
    group.api.wait_for_run("until_drained", run)
    finished = heard("cospark.tasks_finished", "naps")
    assert sum(line.value for line in finished) == 5, "four tasks and their planner"
    assert triggerer.isdisjoint(line.port for line in finished), "the task's own process has counted them"
    assert heard("cospark.job.tasks", "naps", "finished")[-1].value == 4
