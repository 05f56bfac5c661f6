"""Users act on deferred workers and their job, whose streams run on a real Spark Connect server.

These are lines of the table in ``docs/detached.md``. The records are compared with the server's own answers.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow_group import Group
from streams_on_server import JOB, Streams, attempts, runs

from airflow_provider.cli.main import main
from airflow_provider.spark.connect.server import ConnectSettings
from airflow_provider.state.records import TaskState
from airflow_provider.values.model import WorkerId

W1, W2 = WorkerId("on_server.w1"), WorkerId("on_server.w2")


TASKS = 4
pytestmark = pytest.mark.side_by_side


@pytest.mark.thorough
def test_what_users_do_to_workers_does_not_disturb_streams_until_the_last_worker_leaves(
    group: Group, server: ConnectSettings, tmp_path: Path
) -> None:
    api, streams = group.api, Streams(group, server, tmp_path, tasks=TASKS)
    run = group.start("on_server", checkpoints=str(tmp_path))
    group.wait_for_members(W1, W2)
    streams.submit()
    began = streams.watched(W1, W2)
    assert sorted(last.worker for last in began.values()) == [W1, W1, W2, W2]
    assert streams.on_server(began) == runs(began)

    first = group.deferred("on_server", run, "w1")
    api.clear(first)
    second = api.wait_for_task(
        *("on_server", run, "w1"),
        states=("deferred",),
        where=lambda seen: seen.id != first.id and seen.triggerer_job is not None,
    )
    cleared = streams.watched(W1, W2)
    assert attempts(cleared) == attempts(began)
    assert {task: last.worker for task, last in cleared.items()} == {task: last.worker for task, last in began.items()}
    assert streams.on_server(cleared) == runs(began)

    other = group.deferred("on_server", run, "w2")
    api.set_state(second, "failed")
    adopted = streams.watched(W2)
    assert attempts(adopted) == attempts(began)
    assert streams.on_server(adopted) == runs(began)
    after = group.deferred("on_server", run, "w2")
    assert (after.try_number, after.trigger_id) == (other.try_number, other.trigger_id), (
        "w2 needed no process to adopt them"
    )
    assert not [step for step in group.steps() if step.state is TaskState.STOPPED], "no stream was stopped"

    api.set_state(after, "success")
    streams.ended()
    assert streams.on_server(adopted) == []
    streams.assert_no_batch_is_missing()
    api.wait_for_run("on_server", run, states=("failed",))


@pytest.mark.thorough  # its workers come back to processes twice more
def test_a_paused_or_stopped_job_ends_on_the_server_and_resumes_from_its_checkpoints(
    group: Group, server: ConnectSettings, tmp_path: Path
) -> None:
    streams = Streams(group, server, tmp_path, tasks=TASKS)

    def act_on_job(action: str) -> None:
        assert main(["jobs", action, group.name, JOB, "--bootstrap-servers", group.bootstrap_servers]) == 0

    run = group.start("on_server", checkpoints=str(tmp_path))
    group.wait_for_members(W1, W2)
    streams.submit()
    watched = streams.watched(W1, W2)
    for number, action in enumerate(("pause", "stop"), start=2):
        act_on_job(action)
        streams.ended()
        assert streams.on_server(watched) == []
        for worker in ("w1", "w2"):
            group.deferred("on_server", run, worker)
        act_on_job("resume")
        again = streams.watched(W1, W2)
        assert {last.attempt for last in again.values()} == {number}
        assert streams.on_server(again) == runs(again)
        assert set(runs(again)).isdisjoint(runs(watched)), "new queries were started"
        queries = [{task: last.handle["query_id"] for task, last in told.items()} for told in (watched, again)]
        assert queries[0] == queries[1], "from their checkpoints"
        watched = again

    for worker in ("w1", "w2"):
        group.api.set_state(group.deferred("on_server", run, worker), "success")
    streams.ended()
    assert streams.on_server(watched) == []
    streams.assert_no_batch_is_missing()
    group.api.wait_for_run("on_server", run)
