"""Groups in trouble: forgotten by their coordinator, cut off from their broker, with tasks that fail."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from fleet import SHORT_SESSION, SHORT_SESSION_S, Fleet, MakeFleet, cospark, overlaps, without_progress
from waiting import DEADLINE_S, eventually

from airflow_provider.cli.main import main
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.state.views.task_progress.progress import JobState, converged, job_progress
from airflow_provider.values.model import WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")


async def test_epochs_go_on_when_a_deleted_group_is_formed_again(fleet: MakeFleet) -> None:
    async with fleet("--runner", "noop", "--slots", "20") as group:
        await group.submit("forever", tasks=4, kind=TaskKind.STREAMING)
        for worker in ("w1", "w2"):
            group.start(worker)
        await group.balanced("w1", "w2")
        before = group.record
        for worker in ("w1", "w2"):
            group.send(worker, signal.SIGTERM)
        assert [group.wait_for_end(worker) for worker in ("w1", "w2")] == [0, 0]
        admin = AdminClient({"bootstrap.servers": group.settings.bootstrap_servers})
        (deleted,) = admin.delete_consumer_groups([group.group_id]).values()
        await asyncio.to_thread(deleted.result, DEADLINE_S)

        for worker in ("w1", "w3"):
            group.start(worker)
        await group.balanced("w1", "w3")

        assert group.epoch == before.epoch + group.record.generation, "the generation starts again, the epoch goes on"
        epochs = [each.record.epoch for each in await group.rounds()]
        assert epochs == sorted(set(epochs)), "epochs grow, whatever the generation is"
        assert group.owned("w1") | group.owned("w3") == before.assignment[W1] | before.assignment[W2]
        # A status of a task that has moved may come late; it never wins over a status of the new group.
        assert all(winner.epoch > before.epoch for winner in group.topics.status.overwritten.values())
        await eventually(lambda: not group.topics.status.overwritten)  # the leader writes the winning status again
        assert not group.owned("w2")


@pytest.mark.thorough
async def test_workers_cut_off_from_their_broker_stop_in_time_and_go_on_when_it_is_back(
    tmp_path: Path, group_id: str
) -> None:
    with LocalBroker(data=tmp_path / "broker", start_timeout_s=DEADLINE_S) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        options = ("--runner", "noop", "--slots", "20", *SHORT_SESSION, "--max-delay-ms", "0")
        async with Fleet(broker.bootstrap_servers, group_id, tmp_path, *options) as group:
            await group.submit("forever", tasks=4, kind=TaskKind.STREAMING)
            for worker in ("w1", "w2"):
                group.start(worker)
            await group.balanced("w1", "w2")
            attempts = {task: told.attempt for task, told in group.topics.status.tasks.items() if not task.is_planner}

            broker.kill()
            killed_ms = wall_ms()
            await asyncio.sleep(SHORT_SESSION_S)  # longer than any lease
            back_ms = wall_ms()
            with LocalBroker(data=tmp_path / "broker", port=port, start_timeout_s=DEADLINE_S):
                await group.wait_for(
                    lambda _jobs, status: all(
                        status.tasks[task].attempt == attempt + 1 and status.tasks[task].state is TaskState.RUNNING
                        for task, attempt in attempts.items()
                    ),
                    "every task runs again",
                )
                await group.balanced("w1", "w2")

                steps = await group.steps()
                stopped = [step for step in steps if step.state is TaskState.STOPPED and step.started_at_ms]
                over_ms = killed_ms + SHORT_SESSION_S * 1000
                in_time = {step.task for step in stopped if killed_ms < (step.finished_at_ms or 0) < over_ms}
                assert in_time == attempts.keys(), "stopped before the lease was over"
                assert not overlaps(steps), "no two copies of a task"
                assert max(step.started_at_ms or 0 for step in steps) > back_ms
                for worker in ("w1", "w2"):
                    log = group.log_of(worker)
                    assert log.count("trying again until it is") == 1, log
                    assert log.count("back in the group") == 1, log
                    group.send(worker, signal.SIGTERM)
                assert [group.wait_for_end(worker) for worker in ("w1", "w2")] == [0, 0]


@pytest.mark.thorough
async def test_two_workers_share_real_spark_work_of_which_one_task_fails(fleet: MakeFleet) -> None:
    options = ("--runner", "local", "--allow", "jobs_for_tests", "--slots", "2")
    async with fleet(*options, "--spark-conf", "spark.driver.memory=512m") as group:
        for worker in ("w1", "w2"):
            group.start(worker)
        await group.wait_for(
            lambda _jobs, status: status.group is not None and set(status.group.members) == {"w1", "w2"},
            "both have joined",
        )
        config = {"rows": 1_000, "bad": 2}
        await group.submit("squares", tasks=6, entry_point="jobs_for_tests:Squares", config=config, retries=1)
        await group.submit("empty", tasks=1, entry_point="jobs_for_tests:nothing", config={})
        await group.wait_for(
            lambda jobs, status: all(
                (progress := job_progress(job, jobs, status)) is not None and progress.complete
                for job in ("squares", "empty")
            ),
            "both jobs are complete",
        )

        told = {task.index: status for task, status in group.topics.status.tasks.items() if task.job == "squares"}
        failed = told.pop(2)
        assert failed.state is TaskState.FAILED
        assert failed.failures == 2 + failed.last_try, "one more if it was not known what goes well where it failed"
        assert failed.error is not None
        assert "PATH_NOT_FOUND" in failed.error.message
        assert "jobs_for_tests.py" in failed.error.traceback
        del told[-1]
        assert {status.state for status in told.values()} == {TaskState.FINISHED}
        assert sum(status.result["squares"] for status in told.values()) == sum(
            number * number for number in range(1_000) if number % 6 != 2
        )
        assert {status.worker for status in told.values()} == {"w1", "w2"}
        line = f"Task squares:2 failed: {failed.error.message}"
        await eventually(lambda: line in group.log_of(failed.worker))
        empty = job_progress("empty", group.topics.jobs, group.topics.status)
        assert empty is not None
        assert (empty.state, empty.planned) == (JobState.FINISHED, 0)


def test_a_new_broker_is_asked_again_until_it_can_answer_for_groups(
    group_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first request makes the broker create the topic in which it keeps groups."""
    with LocalBroker(data=tmp_path / "broker", start_timeout_s=DEADLINE_S) as broker:
        status = main(["groups", "describe", group_id, "--bootstrap-servers", broker.bootstrap_servers])
    assert (status, without_progress(capsys.readouterr().err)) == (
        1,
        f"cospark groups describe: there is no group '{group_id}'; to see all groups: cospark groups list\n",
    )


async def test_a_group_is_controlled_and_shown_by_commands(fleet: MakeFleet) -> None:
    async with fleet("--runner", "noop", "--slots", "2") as group:
        name = group.group_id
        submit = ("jobs", "submit", name, "etl", "noop:job", "--config", '{"seconds": 600}', "--max-tasks", "6")
        assert (await cospark(group, *submit)).out == "job etl: submitted\n"
        assert (await cospark(group, *submit)).out == "job etl: already submitted, nothing changed\n"
        assert f"{name}: no worker has joined yet\n" in (await cospark(group, "groups", "list")).out

        for worker in ("w1", "w2"):
            group.start(worker)
        await group.wait_for(
            lambda _jobs, status: (
                sum(told.state is TaskState.RUNNING for told in status.tasks.values()) == 4
                and converged(status.group, status.workers)
            ),
            "both workers are busy",
        )

        assert f"{name}: Stable\n" in (await cospark(group, "groups", "list")).out
        told = json.loads((await cospark(group, "groups", "describe", name, "--json")).out)
        assert (told["state"], told["protocol"], told["epoch"]) == ("Stable", "compressed", group.epoch)
        assert {member["worker"]: len(member["assigned"]) for member in told["members"]} == {"w1": 3, "w2": 3}
        assert [task["state"] for task in told["tasks"].values()].count("pending") == 2
        text = (await cospark(group, "groups", "describe", name)).out
        assert f"epoch {group.epoch} (converged), led by {group.record.leader}\n" in text
        assert (await cospark(group, "jobs", "list", name)).out == "etl: running: 2 pending, 4 running\n"
        page = (await cospark(group, "status", name)).out  # without a terminal: once
        assert f"{name}: epoch {group.epoch}, converged, led by {group.record.leader}" in page
        assert page.count("running: etl:") == 2

        drained = await cospark(group, "workers", "stop", name, "w2", "--wait", str(DEADLINE_S))
        assert drained.status == 0
        waits_for = r"it leaves when these have stopped: etl:\d, etl:\d"
        assert re.fullmatch(rf"asked to stop: w2\n{waits_for}\n", drained.out), drained.out
        assert (await group.ended("w2")) == [0]

        assert (await cospark(group, "jobs", "remove", name, "etl")).out == "job etl: removed\n"
        await group.wait_for(lambda _jobs, status: not status.tasks, "no records are left of it")
        assert (await cospark(group, "jobs", "list", name)).out == f"group {name} has no jobs\n"
        again = await cospark(group, "jobs", "remove", name, "etl")
        assert (again.status, again.err) == (1, f"cospark jobs remove: group {name} has no job etl\n")
