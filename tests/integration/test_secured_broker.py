"""The rights in ``docs/security.md`` are enough, each is needed, and the error names a missing one."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from certificates import Certificates
from secured import ADMIN, PageRight, SecuredBroker, rights_on_the_page, secured_broker
from waiting import DEADLINE_S

from airflow_provider.assignment.policy import Deferred
from airflow_provider.cli.main import main
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.live.classic.classic_membership import ClassicMemberships
from airflow_provider.group.live.shared import reach, shared_topics, shared_transport
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration import one_shot
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import BrokerAwayError, RefusedError, TopicError
from airflow_provider.kafka.topics.rights import STEERER, WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records import (
    ControlAction,
    ControlRecord,
    JobDefinition,
    RebalanceEvent,
    TaskEvent,
    TaskKind,
    TaskState,
    TaskStatus,
    WorkerPhase,
)
from airflow_provider.state.reports.group_events import EventKind
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.task_progress.progress import JobState, converged, job_progress
from airflow_provider.triggers.asset_watchers.event_stream import EventStream, Watched
from airflow_provider.values.model import Epoch, TaskId, WorkerId
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.hands.in_process import InThisProcess
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.worker import Worker
from demo.events import read_events

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUP = "etl"
LIFE = "life"
RIGHTS = rights_on_the_page()
WITHOUT = [(role, right) for role, rights in RIGHTS.items() if role != "creator" for right in rights]
TASKS = 3


def without(role: str, right: PageRight) -> str:
    """The user with all rights of the role but this one."""
    return f"{role}-without-{right}"


class Hook(SparkGroupHook):
    """A hook with these settings instead of an Airflow connection."""

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__()
        self._settings = settings

    def get_settings(self) -> KafkaSettings:
        return self._settings


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[SecuredBroker]:
    """A broker with a user for each role with exactly its rights, and for each right a user who lacks only this one."""
    roles = [
        (role, right, group)
        for role, rights in RIGHTS.items()
        for right in rights
        for group in ((GROUP, LIFE) if role != "creator" else ())
    ]
    cases = [
        (without(role, missing), right, GROUP)
        for role, missing in WITHOUT
        for right in RIGHTS[role]
        if right is not missing
    ]
    creators = [("creator", right, LIFE) for role in ("creator", "submitter") for right in RIGHTS[role]]
    creators += [
        (without("creator", missing), right, f"{GROUP}-{missing}")
        for missing in RIGHTS["creator"]
        for right in (*RIGHTS["creator"], *RIGHTS["submitter"])
        if right is not missing
    ]
    granted = [*roles, *cases, *creators]
    with secured_broker(certificates, sorted({user for user, _, _ in granted})) as broker:
        broker.allow(granted)
        yield broker


# ---- what each role does


async def work(settings: KafkaSettings, group: str, name: str, until: Until = Until.FOREVER) -> None:
    """Join, run all tasks, leave.

    :raises AssertionError: with the error, if it ends otherwise
    """
    member = MemberSettings(group_id=group, worker=WorkerId(name), session_timeout_ms=60_000, heartbeat_interval_ms=200)
    values = WorkerSettings(member=member, until=until, slots=TASKS)
    equipment = Equipment(runner="noop", allowed=(), checkpoint_root="/nowhere", spark_master="")
    async with shared_transport(settings) as transport, shared_topics(settings, group, WORKER) as topics:
        worker = Worker(
            values,
            topics=topics,
            memberships=ClassicMemberships(member, transport, topics, policy=Deferred()),
            make_hands=InThisProcess(equipment).make_hands(values, topics),
        )
        outcome = await worker.run()
    if outcome.ending not in (Ending.DRAINED, Ending.LEFT):
        raise AssertionError(outcome.error)


async def submit(settings: KafkaSettings, group: str, name: str) -> None:
    definition = JobDefinition(name=name, entry_point="noop:job", config={"seconds": 0.1}, max_tasks=TASKS)
    await asyncio.to_thread(one_shot.submit_job, settings, group, definition)


async def remove(settings: KafkaSettings, group: str, name: str) -> None:
    await asyncio.to_thread(one_shot.act, settings, group, STEERER, lambda topics: topics.remove("never-submitted"))


async def retry(settings: KafkaSettings, group: str, name: str) -> None:
    await asyncio.to_thread(Hook(settings).retry_failed, group, "never-submitted")


async def watch(settings: KafkaSettings, group: str, name: str) -> None:
    await asyncio.to_thread(lambda: Hook(settings).wait_for(group, lambda _jobs, _status: True, timeout_s=DEADLINE_S))


async def listen(settings: KafkaSettings, group: str, name: str) -> None:
    """Start a watcher and wait until it has begun."""
    kinds = frozenset({EventKind.REBALANCED})
    watched = Watched(kafka_conn_id="", group=group, kinds=kinds, bookmark=f"{group}.watcher.troubles")
    stream = EventStream(watched)
    following = asyncio.ensure_future(stream.follow(settings))
    begun = asyncio.ensure_future(stream._reachable.wait())
    try:
        await asyncio.wait((following, begun), return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE_S)
        if following.done():
            following.result()
        assert begun.done()
    finally:
        following.cancel()
        begun.cancel()
        await asyncio.gather(following, begun, return_exceptions=True)


async def view(settings: KafkaSettings, group: str, name: str) -> None:
    await asyncio.to_thread(one_shot.read_group, settings, group)


async def inspect(settings: KafkaSettings, group: str, name: str) -> None:
    with io.StringIO() as told, contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
        status = await cospark(settings, "groups", "describe", group)
        if status:
            raise AssertionError(told.getvalue())


async def cospark(settings: KafkaSettings, *arguments: str) -> int:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(dict(settings.values), file)
        file.flush()
        return await asyncio.to_thread(main, [*arguments, "--kafka-config", file.name])


ACTIONS: dict[str, Callable[[KafkaSettings, str, str], Awaitable[None]]] = {
    "worker": work,
    "submitter": submit,
    "steerer": remove,
    "retrier": retry,
    "watcher": watch,
    "listener": listen,
    "viewer": view,
    "inspector": inspect,
    "creator": submit,
}


async def test_every_role_of_the_page_is_tried() -> None:
    assert RIGHTS.keys() == ACTIONS.keys()
    assert sum(len(rights) for rights in RIGHTS.values()) > 20


# ---- a healthy group, whatever other users try


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def observer(secured: SecuredBroker) -> AsyncIterator[GroupTopics]:
    """Watches a group whose worker has exactly its rights and whose tasks run for ever."""
    async with GroupTopics(secured.settings(ADMIN), GROUP, WORKER) as topics:
        await topics.submit(
            JobDefinition(name="forever", entry_point="noop:job", max_tasks=TASKS, kind=TaskKind.STREAMING)
        )
        worker = asyncio.ensure_future(work(secured.settings("worker"), GROUP, "worker"))
        await topics.wait_for(
            lambda _, status: converged(status.group, status.workers) and len(running(status)) == TASKS,
            timeout_s=DEADLINE_S,
        )
        yield topics
        await topics.publish_control(
            ControlRecord(worker=WorkerId("worker"), action=ControlAction.STOP, at_ms=wall_ms())
        )
        await asyncio.wait_for(worker, DEADLINE_S)


def running(status: StatusSnapshot) -> list[TaskStatus]:
    return [told for _, told in sorted(status.tasks.items()) if told.state is TaskState.RUNNING]


@pytest_asyncio.fixture(loop_scope="module")
async def undisturbed(observer: GroupTopics) -> AsyncIterator[None]:
    """Checks that the test has changed nothing in the group."""
    before = observer.status.group, running(observer.status), observer.jobs.offset
    yield
    await observer.catch_up()
    assert (observer.status.group, running(observer.status), observer.jobs.offset) == before


async def complaint(action: Awaitable[None]) -> str:
    """The error of an action that must fail."""
    with pytest.raises((TopicError, AssertionError)) as caught:
        await action
    return str(caught.value)


@pytest.mark.parametrize(("role", "missing"), WITHOUT, ids=[without(role, right) for role, right in WITHOUT])
async def test_each_right_is_needed_and_named(
    role: str, missing: PageRight, secured: SecuredBroker, undisturbed: None
) -> None:
    user = without(role, missing)
    told = await complaint(ACTIONS[role](secured.settings(user), GROUP, user))
    assert secured.passwords[user] not in told
    if missing.resource == "topic":
        name = missing.name(GROUP)
        expected = f"User:{user} has no right to {missing.operation} on the topic '{name}': grant it to User:{user}"
    elif role == "listener":
        name = missing.name(GROUP)
        expected = f"User:{user} has no right to READ on the group '{name}': grant it to User:{user}"
    elif role == "worker":
        expected = f"in group '{GROUP}' was refused: .* the right READ on the group\\); grant it to User:{user}"
    else:
        expected = f"group '{GROUP}': .*User:{user} has no right to DESCRIBE it: grant that to User:{user}"
    assert re.search(expected, told), told


@pytest.mark.parametrize("missing", RIGHTS["creator"], ids=str)
async def test_a_topic_that_may_not_be_made_is_named(missing: PageRight, secured: SecuredBroker) -> None:
    user, group = without("creator", missing), f"{GROUP}-{missing}"
    told = await complaint(submit(secured.settings(user), group, "job"))
    assert f"User:{user} has no right to CREATE on the topic '{missing.name(group)}': grant it" in told


async def test_a_worker_that_is_refused_does_not_look_as_if_it_were_still_joining(
    secured: SecuredBroker, observer: GroupTopics
) -> None:
    (read,) = (right for right in RIGHTS["worker"] if right.resource == "group")
    user = without("worker", read)
    assert "was refused" in await complaint(work(secured.settings(user), GROUP, "refused"))
    await observer.catch_up()
    assert observer.status.workers[WorkerId("refused")].state is WorkerPhase.LEFT


async def test_all_rights_that_a_worker_lacks_are_named_at_once(secured: SecuredBroker, undisturbed: None) -> None:
    told = await complaint(work(secured.settings("watcher"), GROUP, "watcher"))
    assert (
        "User:watcher has no right to WRITE on the topic 'etl.jobs', WRITE on the topic 'etl.status',"
        " WRITE on the topic 'etl.events': grant these to User:watcher"
    ) in told


# ---- with exactly these rights


async def test_with_exactly_these_rights_everything_works(
    secured: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a group without topics to a job that is finished, seen by all roles, retried and removed."""
    await submit(secured.settings("creator"), LIFE, "first")
    await submit(secured.settings("submitter"), LIFE, "second")
    both = finished("first", "second")
    watching = asyncio.ensure_future(
        asyncio.to_thread(Hook(secured.settings("watcher")).wait_for, LIFE, both, timeout_s=2 * DEADLINE_S)
    )
    config = tmp_path / "connection.json"
    config.write_text(json.dumps(secured.extra("worker")))
    worker = await asyncio.to_thread(
        subprocess.run,
        [
            *(sys.executable, "-m", "airflow_provider.cli.main", "worker", LIFE, "--worker", "w1"),
            *("--runner", "noop", "--until", "drained", "--kafka-config", str(config)),
        ],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (worker.returncode, "drained" in worker.stdout) == (0, True), worker.stderr
    assert "right" not in worker.stderr
    assert await watching
    assert await cospark(secured.settings("viewer"), "jobs", "list", LIFE) == 0
    assert "first: finished: 3 finished" in capsys.readouterr().out
    assert await cospark(secured.settings("viewer"), "status", LIFE, "--once") == 0
    assert await cospark(secured.settings("inspector"), "groups", "describe", LIFE) == 0
    await listen(secured.settings("listener"), LIFE, "listener")

    events = await asyncio.to_thread(read_events, secured.settings(ADMIN), LIFE)
    assert any(isinstance(event, RebalanceEvent) for event in events)
    done = [e.status.task for e in events if isinstance(e, TaskEvent) and e.status.state is TaskState.FINISHED]
    assert sorted(done) == [TaskId(job, index) for job in ("first", "second") for index in range(-1, TASKS)]

    failed = TaskStatus(task=TaskId("first", 0), state=TaskState.FAILED, epoch=Epoch(99), worker=WorkerId("w1"))
    async with GroupTopics(secured.settings(ADMIN), LIFE, WORKER) as topics:
        await topics.publish_task(failed)
    retried = await asyncio.to_thread(Hook(secured.settings("retrier")).retry_failed, LIFE, "first")
    assert retried == ["first:0"]
    assert await asyncio.to_thread(
        one_shot.act, secured.settings("steerer"), LIFE, STEERER, lambda topics: topics.remove("first")
    )
    assert await cospark(secured.settings("steerer"), "jobs", "remove", LIFE, "second") == 0


def finished(*jobs: str) -> Callable[[JobsSnapshot, StatusSnapshot], bool | None]:
    def read(known: JobsSnapshot, status: StatusSnapshot) -> bool | None:
        reports = [job_progress(job, known, status) for job in jobs]
        return True if all(report and report.state is JobState.FINISHED for report in reports) else None

    return read


# ---- refused connections


async def test_a_connection_that_is_refused_names_its_setting(secured: SecuredBroker) -> None:
    """On both connections to the broker: for the group protocol and for topics."""
    bootstrap = secured.broker.bootstrap_servers.replace("127.0.0.1", "localhost")
    cases = {
        "sasl.password": {"sasl.password": "guessed-by-somebody"},
        "sasl.username": {"sasl.username": "guessed-by-somebody"},
        "sasl.mechanism": {"sasl.mechanism": "PLAIN"},
        "ssl.ca.location": {"ssl.ca.location": str(secured.certificates.stranger)},
        "bootstrap.servers": {"bootstrap.servers": bootstrap},
        "security.protocol": {"security.protocol": "PLAINTEXT"},
        "security.protocol ": {"security.protocol": "SASL_PLAINTEXT"},
        "security.protocol  ": {"security.protocol": "SSL"},
    }

    async def check(setting: str, wrong: dict[str, str]) -> None:
        settings = secured.settings("worker", **wrong)
        answered = not setting.startswith("security.protocol")
        timeout_s = DEADLINE_S if answered else 5
        with pytest.raises(TransportError, match=f"check .*{setting.strip()}") as by_group:
            await reach(settings)
        with pytest.raises((RefusedError, BrokerAwayError), match=f"check .*{setting.strip()}") as by_topics:
            await asyncio.to_thread(one_shot.read_group, settings, GROUP, timeout_s=timeout_s)
        with pytest.raises((RefusedError, BrokerAwayError), match=f"check .*{setting.strip()}"):
            await asyncio.to_thread(one_shot.list_groups, settings, timeout_s=timeout_s)
        for caught in (by_group, by_topics):
            assert "guessed" not in str(caught.value)
            assert secured.passwords["worker"] not in str(caught.value)
        if answered:
            assert by_group.value.fault is Fault.SECURITY
            assert isinstance(by_topics.value, RefusedError)

    await asyncio.gather(*(check(setting, wrong) for setting, wrong in cases.items()))
