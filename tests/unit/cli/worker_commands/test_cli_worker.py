"""``cospark worker`` before it joins and after it has ended; what lies between is in ``tests/integration``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from stand_ins import LonelyCoordinator, MemoryTopics

from airflow_provider.assignment.policy import IMMEDIATE, Deferred, Incremental, Policy
from airflow_provider.cli.main import main
from airflow_provider.cli.worker_commands import worker as worker_module
from airflow_provider.group.live.classic import classic_membership
from airflow_provider.integration.memberships.group_protocols import GroupProtocolName
from airflow_provider.integration.memberships.worker_values import WorkerSpec
from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.topics.errors import TopicRightsError
from airflow_provider.spark.connect.server import AllowedServers
from airflow_provider.spark.job.allowed_applications import AllowedApplications
from airflow_provider.spark.job.session_conf import AllowedConf
from airflow_provider.state.records import JobDefinition, TaskState
from airflow_provider.values.model import ConnectProtocol, Epoch
from airflow_provider.worker import holding
from airflow_provider.worker.endings.ending import Ending, Outcome
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.settings import Until

BROKER = ("--bootstrap-servers", "nowhere:9")


class Began:
    """What the worker would have been started with."""

    settings: WorkerSpec
    returns_ms: int
    equipment: Equipment


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Callable[[Outcome | Exception], Began]:
    """Have every worker end so immediately."""

    def make(outcome: Outcome | Exception) -> Began:
        began = Began()

        async def work(_kafka: object, spec: WorkerSpec, returns_ms: int, equipment: Equipment) -> Outcome:
            began.settings, began.returns_ms, began.equipment = spec, returns_ms, equipment
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(worker_module, "_work", work)
        return began

    return make


def outcome(ending: Ending, error: str | None = None) -> Outcome:
    return Outcome(ending=ending, epoch=Epoch(7), error=error)


@pytest.mark.parametrize(
    ("ending", "status"),
    [(Ending.LEFT, 0), (Ending.DRAINED, 0), (Ending.FENCED, 1), (Ending.FAILED, 1), (Ending.IDLE, 1)],
)
def test_the_exit_status_says_whether_it_left_of_its_own_will(
    ends: Any, capsys: pytest.CaptureFixture[str], ending: Ending, status: int
) -> None:
    ends(outcome(ending, "why" if status else None))
    assert main(["worker", "g", "--worker", "w1", *BROKER]) == status
    told = capsys.readouterr()
    assert told.out == f"worker w1: {ending.value} at epoch 7\n"
    assert ("cospark worker: why\n" in told.err) == bool(status)


@pytest.mark.parametrize(
    "failure",
    [TransportError("cannot connect to nowhere:9", fault=Fault.CONNECTION), TopicRightsError("g.jobs", "Create")],
)
def test_what_keeps_it_from_joining_is_one_line(
    ends: Any, capsys: pytest.CaptureFixture[str], failure: Exception
) -> None:
    ends(failure)
    assert main(["worker", "g", *BROKER]) == 2
    assert capsys.readouterr().err == f"cospark worker: {failure}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--slots", "0"), "--slots 0: a worker needs at least one slot"),
        (("--slots", "1000000000"), "--slots 1000000000: a worker has at most 10000 slots"),
        (("--returns-ms", "-1"), "--returns-ms -1: must be from 0 to"),
        (("--allow-session-conf", "fs.*"), "--allow-session-conf: 'fs.*' must be names of Spark's settings"),
        (("--allow-spark-server", "spark:1"), "--allow-spark-server: the URL of a Spark Connect server begins"),
        (("--checkpoint-root", ""), "--checkpoint-root: '' is neither an absolute path nor a URI"),
        (
            ("--checkpoint-root", "checkpoints"),
            "--checkpoint-root: 'checkpoints' is neither an absolute path",
        ),
        (("--max-delay-ms", "-1"), "--max-delay-ms: -1 must be a whole number from 0"),
        (("--policy", "incremental"), "--max-moves: the policy 'incremental' needs to know"),
        (("--policy", "incremental", "--max-moves", "0"), "--max-moves: 0 must be"),
        (
            ("--policy", "immediate", "--max-delay-ms", "5"),
            "--max-delay-ms: does not apply to the policy 'immediate'",
        ),
        (("--move-interval-ms", "5"), "--move-interval-ms: does not apply to the policy 'deferred'"),
        (("--policy", "incremental", "--max-moves", "1", "--connect-protocol", "eager"), "--policy: 'incremental'"),
        (("--session-timeout-ms", "100"), "session_timeout_ms=100"),
        (("--session-timeout-ms", "70000"), "rebalance_timeout_ms=60000 must be at least session_timeout_ms=70000"),
        (("--worker", "w", "--spark-conf", "nonsense"), "--spark-conf nonsense: must be KEY=VALUE"),
        (("--spark-conf", "=x"), "must be KEY=VALUE"),
        (("--idle-timeout", "0"), "--idle-timeout 0: must be at least"),
        (("--progress-interval", "0.5"), "--progress-interval 0.5: must be at least 1 s"),
        (("--progress-interval", "nan"), "--progress-interval nan: must be at least 1 s"),
        (("--idle-timeout", "nan"), "--idle-timeout nan: must be at least"),
        (("--kafka-config", "/no/such/file"), "/no/such/file"),
    ],
)
def test_options_that_make_no_worker_are_refused(
    ends: Any, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], complaint: str
) -> None:
    ends(outcome(Ending.LEFT))
    assert main(["worker", "g", *BROKER, *options]) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(("options", "returns_ms"), [((), 0), (("--returns-ms", "9000"), 9_000)])
def test_without_a_supervisor_it_does_not_come_back(ends: Any, options: tuple[str, ...], returns_ms: int) -> None:
    began = ends(outcome(Ending.LEFT))
    assert main(["worker", "g", *BROKER, *options]) == 0
    assert began.returns_ms == returns_ms


@pytest.mark.parametrize(
    ("group_protocol", "offered"), [("classic", ConnectProtocol.EXTENSIBLE), ("connect", ConnectProtocol.SESSIONED)]
)
def test_tasks_are_learned_where_the_group_protocol_can_do_that(
    ends: Any, group_protocol: str, offered: ConnectProtocol
) -> None:
    began = ends(outcome(Ending.LEFT))
    assert main(["worker", "g", *BROKER, "--group-protocol", group_protocol]) == 0
    assert began.settings.member.protocol is offered


def test_options_reach_the_worker(ends: Any) -> None:
    began = ends(outcome(Ending.LEFT))
    options = ("--worker", "w1", "--slots", "5", "--until", "drained", "--connect-protocol", "eager")
    connect = ("--group-protocol", "connect")
    timing = (
        "--session-timeout-ms",
        "9000",
        "--heartbeat-interval-ms",
        "500",
        "--max-delay-ms",
        "0",
        "--idle-timeout",
        "1.5",
    )
    conf = ("--spark-conf", "spark.a=b=c", "--spark-conf", "spark.d=", "--allow", "x", "--allow", "y.z")
    more = ("--allow-session-conf", "spark.sql.iceberg.*", "--allow-session-conf", "spark.wap.id")
    applications = ("--allow-application", "/opt/apps", "--allow-application", "yarn")
    servers = ("--allow-spark-server", "sc://old", "--allow-spark-server", "sc://older:1")
    assert main(["worker", "g", *BROKER, *options, *connect, *timing, *conf, *more, *applications, *servers]) == 0
    settings = began.settings
    assert (settings.slots, settings.until, settings.policy) == (5, Until.DRAINED, IMMEDIATE)
    assert (settings.member.group_id, settings.member.worker) == ("g", "w1")
    assert (settings.member.protocol, settings.group_protocol) == (ConnectProtocol.EAGER, GroupProtocolName.CONNECT)
    assert (settings.member.session_timeout_ms, settings.member.heartbeat_interval_ms) == (9_000, 500)
    assert settings.idle_timeout_ms == 1_500
    assert began.equipment.spark_conf == {"spark.a": "b=c", "spark.d": ""}
    assert began.equipment.allowed == ("x", "y.z")
    assert began.equipment.allowed_servers == AllowedServers.of(["sc://old:15002", "sc://older:1"])
    assert began.equipment.applications == AllowedApplications(("/opt/apps", "yarn"))
    assert began.equipment.allowed_conf == AllowedConf(("spark.sql.iceberg.*", "spark.wap.id"))


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ((), Deferred(max_delay_ms=300_000)),
        (("--policy", "deferred", "--max-delay-ms", "7"), Deferred(max_delay_ms=7)),
        (("--policy", "immediate"), IMMEDIATE),
        (("--policy", "incremental", "--max-moves", "5"), Incremental(max_moves=5)),
        (
            ("--policy", "incremental", "--max-moves", "5", "--move-interval-ms", "0", "--max-delay-ms", "9"),
            Incremental(max_moves=5, move_interval_ms=0, max_delay_ms=9),
        ),
    ],
)
def test_a_policy_is_chosen(ends: Any, options: tuple[str, ...], policy: Policy) -> None:
    began = ends(outcome(Ending.LEFT))
    assert main(["worker", "g", *BROKER, *options]) == 0
    assert began.settings.policy == policy


def test_by_default_its_tasks_go_on_while_a_broker_restarts(ends: Any) -> None:
    began = ends(outcome(Ending.LEFT))
    main(["worker", "g", *BROKER])
    member = began.settings.member
    lease_ms = member.session_lease_ms - member.lease_margin_ms - member.heartbeat_interval_ms
    assert lease_ms >= 2 * 9_000, "twice what a restart was measured to take"


def test_a_worker_without_a_name_has_one_of_its_own(ends: Any) -> None:
    began = ends(outcome(Ending.LEFT))
    main(["worker", "g", *BROKER])
    assert began.settings.member.worker.endswith(f"-{os.getpid()}")
    assert began.equipment.allowed == ()


def test_the_help_says_that_nothing_is_allowed_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["worker", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "By default nothing is allowed, and every job fails" in text
    assert "a second one ends it immediately" in text


def test_how_it_ended_does_not_depend_on_who_listens(ends: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ends(outcome(Ending.LEFT))
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert main(["worker", "g", *BROKER]) == 0
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["worker", "g", *BROKER]) == 0


def test_it_runs_what_its_group_has_and_ends_when_that_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that stands between the command line and the topics; only Kafka is not there."""
    topics = MemoryTopics()

    @asynccontextmanager
    async def in_memory(settings: object, group_id: str, needs: object) -> AsyncIterator[MemoryTopics]:
        await topics.submit(JobDefinition(name="a", entry_point="noop:job", config={"seconds": 0}, max_tasks=2))
        yield topics

    @asynccontextmanager
    async def alone(settings: object) -> AsyncIterator[LonelyCoordinator]:
        yield LonelyCoordinator()

    async def reach(settings: object) -> None: ...

    monkeypatch.setattr(worker_module, "reach", reach)
    monkeypatch.setattr(holding, "shared_topics", in_memory)
    monkeypatch.setattr(classic_membership, "shared_transport", alone)
    assert main(["worker", "g", "--worker", "w1", "--runner", "noop", "--until", "drained", *BROKER]) == 0
    ended = capsys.readouterr().out
    assert re.fullmatch(r"worker w1: drained at epoch [23]\n", ended), f"the planner's stop may need a round: {ended}"
    states = {task.index: said.state for task, said in topics.status.tasks.items()}
    assert states == dict.fromkeys((-1, 0, 1), TaskState.FINISHED)
