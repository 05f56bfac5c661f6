"""Bad input on a real broker: each gives a clear error at the right place and disturbs nothing else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import suppress

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fleet import MakeFleet
from skipped_records import skipped_records
from waiting import DEADLINE_S, eventually

from airflow_provider.cli.main import main
from airflow_provider.kafka.topics.errors import TopicRenewedError
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind, TaskState
from airflow_provider.values.model import TaskId, planner_of

BAD_JOBS = {
    "forbidden": ("os:system", "module os is not allowed here; this worker imports jobs from jobs_for_tests"),
    "unknown": ("jobs_for_tests.nothere:Job", "there is no module jobs_for_tests.nothere on this worker"),
    "misspelt": ("jobs_for_tests:Sqares", "has no attribute Sqares"),
    "no-job": ("jobs_for_tests:no_job", "decorate it with @spark_job"),
    "too-many": ("jobs_for_tests:too_many", "returned 3 tasks, but max_tasks is 2"),
}


async def test_each_bad_job_fails_with_its_reason_and_is_not_tried_again(fleet: MakeFleet) -> None:
    """The mistake is found before any Spark starts."""
    async with fleet("--runner", "local", "--allow", "jobs_for_tests", "--until", "drained") as group:
        for name, (entry_point, _) in BAD_JOBS.items():
            await group.submit(name, tasks=2, entry_point=entry_point, config={}, retries=3)
        await group.submit("good", tasks=2, entry_point="jobs_for_tests:nothing", config={})
        group.start("w1")
        assert group.wait_for_end("w1") == 0
        await group.topics.catch_up()
        for name, (_, reason) in BAD_JOBS.items():
            told = group.topics.status.tasks[planner_of(name)]
            assert (told.state, told.attempt) == (TaskState.FAILED, 1), name
            assert told.error is not None
            assert reason in told.error.message
            assert reason in group.log_of("w1")
        assert group.topics.status.tasks[planner_of("good")].state is TaskState.FINISHED


async def test_a_worker_that_allows_nothing_runs_nothing_and_says_why(fleet: MakeFleet) -> None:
    async with fleet("--runner", "local", "--until", "drained") as group:
        await group.submit("squares", tasks=1, entry_point="jobs_for_tests:Squares", config={})
        group.start("w1")
        assert group.wait_for_end("w1") == 0
        await group.topics.catch_up()
        error = group.topics.status.tasks[planner_of("squares")].error
        assert error is not None
        assert "imports jobs from nowhere" in error.message


GARBAGE = [  # the broker refuses a record without a key, because the topic is compacted
    (b"\xff\x00 no text", b"{}"),
    (b"job:torn", b'{"v": 1, "name": "to'),
    (b"job:fl/ights", b'{"v": 1, "name": "fl/ights", "entry_point": "m:f"}'),
    (b"job:listed", json.dumps({"v": 1, "name": "listed", "entry_point": "m:f", "config": ["no", "object"]}).encode()),
    (b"job:newer", b'{"v": 99, "name": "newer"}'),
    (b"plan:forever", b"[]"),
]


async def test_garbage_in_the_jobs_topic_is_counted_and_skipped(fleet: MakeFleet) -> None:
    async with fleet("--runner", "noop", "--slots", "20") as group:
        await group.submit("forever", tasks=2, kind=TaskKind.STREAMING)
        group.start("w1")
        await group.balanced("w1")
        stops, attempts = await group.stops(), {t: told.attempt for t, told in group.topics.status.tasks.items()}

        producer = Producer({"bootstrap.servers": group.settings.bootstrap_servers})
        for key, value in GARBAGE:
            producer.produce(group.topics.names.jobs, key=key, value=value)
        await asyncio.to_thread(producer.flush, DEADLINE_S)
        await group.submit("after", tasks=1, seconds=0)

        await group.wait_for(
            lambda _jobs, status: (
                (told := status.tasks.get(TaskId("after", 0))) is not None and told.state is TaskState.FINISHED
            ),
            "the job that was submitted afterwards runs",
        )
        assert group.topics.jobs.unreadable == len(GARBAGE)
        assert group.topics.jobs.jobs.keys() == {"forever", "after"}
        assert await group.stops() == stops
        assert {t: group.topics.status.tasks[t].attempt for t in attempts} == attempts
        log = group.log_of("w1")
        assert skipped_records(log) == len(GARBAGE), log


async def test_recreated_topics_are_not_taken_for_the_old_ones(fleet: MakeFleet) -> None:
    async with fleet() as group:
        await group.submit("lost", tasks=1)
        await group.topics.catch_up()
        admin = AdminClient({"bootstrap.servers": group.settings.bootstrap_servers})
        topic = group.topics.names.jobs
        (deleted,) = admin.delete_topics([topic]).values()
        await asyncio.to_thread(deleted.result, DEADLINE_S)
        (made,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
        await asyncio.to_thread(made.result, DEADLINE_S)
        with suppress(TopicRenewedError):  # unless the reader noticed first
            await group.topics.catch_up()
        await eventually(lambda: group.topics.renewals[topic] == 1)
        assert not group.topics.jobs.jobs


NOBODY = ("--bootstrap-servers", "127.0.0.1:1")


def assert_named_at_once(command: str, status: int, out: str, err: str) -> None:
    assert status == 2
    assert err.startswith(f"cospark {command}")
    assert "cannot connect to 127.0.0.1:1" in err
    assert "check bootstrap.servers" in err
    assert "Traceback" not in err
    assert out == ""
    assert "timed out" not in err, "it did not wait for a broker"


@pytest.mark.parametrize(
    "arguments",
    [
        ("jobs", "list", "g"),
        ("jobs", "submit", "g", "j", "m:f"),
        ("jobs", "remove", "g", "j"),
        ("groups", "list"),
        ("groups", "describe", "g"),
        ("workers", "stop", "g", "w1"),
        ("status", "g", "--once"),
    ],
)
def test_a_broker_that_is_not_there_is_named_at_once(
    arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    status = main([*arguments, *NOBODY])
    assert_named_at_once(arguments[0], status, *capfd.readouterr())


def test_a_worker_names_it_too() -> None:
    """In a process of its own, whose log it sets up."""
    command = (sys.executable, "-m", "airflow_provider.cli.main", "worker", "g", "--runner", "noop", *NOBODY)
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert_named_at_once("worker", done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "action", [("jobs", "list"), ("jobs", "remove"), ("groups", "describe"), ("workers", "stop"), ("status",)]
)
def test_a_group_that_does_not_exist_is_named_and_not_made(
    action: tuple[str, ...], broker: LocalBroker, group_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"remove": ["job"], "stop": ["w1"], "status": ["--once"]}.get(action[-1], [])
    for _ in range(2):
        assert main([*action, group_id, *more, "--bootstrap-servers", broker.bootstrap_servers]) == 1
        assert group_id in capsys.readouterr().err
