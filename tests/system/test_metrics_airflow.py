"""The metrics that a real Airflow sends to StatsD, from the triggerer and from a worker's task."""

from __future__ import annotations

import pytest
from airflow_group import Group
from mailbox_statsd import Mailbox
from statsd_server import Line

pytestmark = pytest.mark.side_by_side


def test_metrics_come_from_the_triggerer_while_the_worker_is_deferred_else_from_its_task(
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
        what=lambda: "no gauges of a deferred worker's group",
    )
    triggerer = {line.port for line in told[-1:]}
    assert told[-1].value == 1

    submitted = group.start("bounded_job")
    group.api.wait_for_run("bounded_job", submitted)
    group.api.wait_for_run("until_drained", run)

    def finished() -> list[Line]:
        return heard("cospark.tasks_finished", "naps")

    group.api.wait_until(
        lambda: sum(line.value for line in finished()) == 5,
        what=lambda: f"not four tasks and their planner: {finished()}",
    )
    assert triggerer.isdisjoint(line.port for line in finished()), "the task's own process counted them"
    group.api.wait_until(
        lambda: [line.value for line in heard("cospark.job.tasks", "naps", "finished")[-1:]] == [4],
        what=lambda: "no gauge of four finished tasks",
    )
