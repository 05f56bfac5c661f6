"""``cospark worker GROUP``: a worker in the foreground, without Airflow, by the same code."""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import socket
import sys
from typing import Final

from airflow_provider.assignment.model import Absence, LeaveReason
from airflow_provider.assignment.policy import LONGEST_DELAY_MS, PolicyError
from airflow_provider.cli.shared.conf_option import SPARK, add_conf_option, conf_of
from airflow_provider.cli.shared.connection import add_connection_arguments, settings_of
from airflow_provider.cli.shared.learners import add_learner_arguments, learner_limits_of
from airflow_provider.cli.shared.names import add_group_argument, add_worker_option
from airflow_provider.cli.shared.policies import add_policy_arguments, policy_of
from airflow_provider.cli.shared.signals import handlers_restored, leave_when_signalled
from airflow_provider.cli.shared.terminal import complain, log_to_terminal, say
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.declarative.coordinator.settings import DEFAULT_SESSION_MS
from airflow_provider.group.live.shared import reach
from airflow_provider.integration.memberships.group_protocols import (
    Coordinators,
    GroupProtocolName,
    check_goes_together,
    offered_by_default,
)
from airflow_provider.integration.memberships.worker_values import WorkerSpec
from airflow_provider.integration.operator_parameters.parameters import usable
from airflow_provider.integration.rare_collections import collect_rarely
from airflow_provider.integration.stats.metering import observer_of
from airflow_provider.integration.stats.stats_without_airflow import destination
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.spark.connect.server import TOKEN_ENV, AllowedServers
from airflow_provider.spark.job.allowed_applications import AllowedApplications
from airflow_provider.spark.job.checkpoint_folder import usable_root
from airflow_provider.spark.job.session_conf import AllowedConf
from airflow_provider.spark.masters import usable_master
from airflow_provider.state.records import WorkerPhase
from airflow_provider.state.records.jobs_topic.slots import MOST_SLOTS
from airflow_provider.state.rounds.policies import check_protocol
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import ConnectProtocol, WorkerId
from airflow_provider.worker.endings.after_ending import Next, Process, what_next
from airflow_provider.worker.endings.ending import Outcome
from airflow_provider.worker.equipment import (
    DEFAULT_MAX_SPARK_DEATHS,
    DEFAULT_PROGRESS_S,
    DEFAULT_SPARK_MASTER,
    NEVER_S,
    RUNNERS,
    Equipment,
)
from airflow_provider.worker.exit_requests import ExitRequests
from airflow_provider.worker.hands.in_process import InThisProcess
from airflow_provider.worker.holding import Holding, held
from airflow_provider.worker.settings import Until

_SESSION_MS: Final = {GroupProtocolName.CLASSIC: 30_000, GroupProtocolName.CONNECT: DEFAULT_SESSION_MS}
"""A broker takes about 10 s to restart. With Connect's session of 10 s, all tasks would have stopped by then."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "The first SIGTERM or Ctrl-C has the worker stop its tasks and leave the group; a second one ends it"
        " immediately. Exit status: 0 it left, or the group was drained; 1 it lost its membership, failed, or its"
        " --idle-timeout has passed; 2 not possible."
    )
    add_group_argument(parser, "the group to join")
    add_worker_option(parser)
    parser.add_argument(
        "--runner",
        choices=RUNNERS,
        default="local",
        help="what runs the tasks: Spark (local, the default), or nothing, to try out groups (noop)",
    )
    parser.add_argument(
        "--slots", type=int, default=2, metavar="N", help="how many tasks it runs at the same time (default: 2)"
    )
    parser.add_argument(
        "--until",
        choices=[until.value for until in Until],
        default=Until.FOREVER.value,
        help="when to leave: when every job of the group is bounded and complete (drained), or never by itself"
        " (forever, the default)",
    )
    parser.add_argument(
        "--idle-timeout",
        type=float,
        metavar="S",
        help="leave, with exit status 1, when no worker of the group has had anything to run for S seconds: it has no"
        " jobs, or none with anything left to run (default: wait without limit)",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PREFIX",
        help="package or module from which jobs may be imported; may be repeated. Within these, whoever may write to"
        " the group's jobs topic decides what runs here. By default nothing is allowed, and every job fails",
    )
    parser.add_argument(
        "--allow-session-conf",
        action="append",
        default=[],
        metavar="PATTERN",
        help="settings of Spark that jobs may have besides the usual ones, such as 'spark.sql.iceberg.*'; may be"
        " repeated. File systems, catalogs and names of classes are never allowed",
    )
    parser.add_argument(
        "--allow-application",
        action="append",
        default=[],
        metavar="PART",
        help="what the applications that jobs submit to Spark may consist of: a folder (/opt/apps, s3a://lake/apps), a"
        " Spark master, Maven packages ('org.apache.iceberg:*:1.10.1'), or main classes ('com.example.etl.*'); may be"
        " repeated. By default no application is allowed",
    )
    parser.add_argument(
        "--checkpoint-root",
        metavar="DIR",
        help="folder or URI of the streaming checkpoints, the same for all workers; without it tasks of streaming jobs"
        " fail. 'temporary', for trials, is a folder among this machine's temporary files",
    )
    parser.add_argument(
        "--spark-master",
        default=DEFAULT_SPARK_MASTER,
        metavar="URL",
        help="a Spark master, or a Spark Connect server: sc://host:port. If the server needs a token, set it in the"
        f" environment variable {TOKEN_ENV} (default: %(default)s)",
    )
    parser.add_argument(
        "--allow-spark-server",
        action="append",
        default=[],
        metavar="URL",
        help="another Spark Connect server on which the group's streams may have run, and which this worker may call to"
        " end them, with its user_id and use_ssl if it has these; may be repeated. It gets no token",
    )
    parser.add_argument(
        "--detach",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="streams on a Spark Connect server, and applications whose driver runs on a cluster, keep running without"
        " this process, and another worker adopts them (default: --detach)",
    )
    add_conf_option(parser, SPARK, "Spark; with Spark Connect, of each session")
    parser.add_argument(
        "--max-spark-deaths",
        type=int,
        default=DEFAULT_MAX_SPARK_DEATHS,
        metavar="N",
        help="a task fails for good when Spark or the process has ended N times while it ran, and nothing else can be"
        " the reason (default: %(default)s)",
    )
    parser.add_argument(
        "--progress-interval",
        type=float,
        default=DEFAULT_PROGRESS_S,
        metavar="S",
        help="shortest time between two progress reports of a task, in seconds (default: %(default)g)",
    )
    parser.add_argument(
        "--returns-ms",
        type=int,
        default=0,
        metavar="MS",
        help="if a supervisor starts the worker again under its name: how long that takes at most. Its tasks wait at"
        " most this long for it when it is lost or gets a signal (default: 0, nobody starts it again)",
    )
    _add_timing(parser)
    add_learner_arguments(parser)
    add_policy_arguments(parser)
    add_connection_arguments(parser)


def _add_timing(parser: argparse.ArgumentParser) -> None:
    timing = parser.add_argument_group(
        "the membership (in milliseconds; the defaults are Connect's, except for the session)"
    )
    timing.add_argument(
        "--group-protocol",
        choices=[name.value for name in GroupProtocolName],
        default=GroupProtocolName.CLASSIC.value,
        help="classic: Kafka's group protocol, in rounds (default); connect: a declarative group, which this process"
        " may also coordinate. Give all workers of a group the same",
    )
    timing.add_argument(
        "--coordinators",
        choices=[coordinators.value for coordinators in Coordinators],
        default=Coordinators.MEMBERS.value,
        help="who coordinates declarative groups: the processes that hold workers, such as this one (members, the"
        " default), or only dedicated ones (cospark coordinator)",
    )
    timing.add_argument(
        "--connect-protocol",
        choices=[protocol.value for protocol in ConnectProtocol],
        help="as Connect's connect.protocol; extensible: tasks are learned before they move (default: extensible in a"
        " classic group, sessioned in a declarative one)",
    )
    timing.add_argument(
        "--session-timeout-ms",
        type=int,
        metavar="MS",
        help="the coordinator removes a worker that is silent for this long (default:"
        f" {_SESSION_MS[GroupProtocolName.CLASSIC]}; {_SESSION_MS[GroupProtocolName.CONNECT]} in a declarative group,"
        " because its coordinator may have to be replaced in that time)",
    )
    fields = MemberSettings.__dataclass_fields__
    for name, meaning in (
        ("heartbeat_interval_ms", "time between heartbeats"),
        ("rebalance_timeout_ms", "how long the coordinator waits for workers to join a rebalance"),
        ("lease_margin_ms", "how long before the end of its lease a worker tells its tasks to stop"),
    ):
        timing.add_argument(
            f"--{name.replace('_', '-')}",
            type=int,
            default=fields[name].default,
            metavar="MS",
            help=f"{meaning} (default: %(default)s)",
        )


def run(args: argparse.Namespace) -> int:
    log_to_terminal()
    try:
        kafka = settings_of(args)
        spec, equipment = _spec(args), _equipment(args)
        with handlers_restored():
            outcome = asyncio.run(_work(kafka, spec, args.returns_ms, equipment))
    except (SettingsError, TransportError, TopicError, ValueError) as wrong:
        complain(f"cospark worker: {wrong}")
        return 2
    _say(f"worker {spec.member.worker}: {outcome.ending.value} at epoch {outcome.epoch}")
    if outcome.error:
        complain(f"cospark worker: {outcome.error}")
    return 0 if what_next(Process.COMMAND, outcome.ending) is Next.SUCCEED else 1


def _say(text: str) -> None:
    """Print a line. A closed standard output must not change how the worker ends."""
    try:
        say(text)
    except BrokenPipeError:
        # The buffer is flushed when the process ends, so it needs an open file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _spec(args: argparse.Namespace) -> WorkerSpec:
    """:raises ValueError: naming the option that is wrong"""
    worker = args.worker or f"{socket.gethostname()}-{os.getpid()}"
    if args.slots < 1:
        raise ValueError(f"--slots {args.slots}: a worker needs at least one slot")
    if args.slots > MOST_SLOTS:
        raise ValueError(f"--slots {args.slots}: a worker has at most {MOST_SLOTS} slots")
    if not 0 <= args.returns_ms <= LONGEST_DELAY_MS:
        raise ValueError(f"--returns-ms {args.returns_ms}: must be from 0 to {LONGEST_DELAY_MS}")
    if args.idle_timeout is not None and not 0.001 <= args.idle_timeout < 10**9:
        raise ValueError(f"--idle-timeout {args.idle_timeout:g}: must be at least 0.001 s")
    policy, name = policy_of(args), GroupProtocolName(args.group_protocol)
    connect_protocol = ConnectProtocol(args.connect_protocol) if args.connect_protocol else offered_by_default(name)
    session_ms = _SESSION_MS[name] if args.session_timeout_ms is None else args.session_timeout_ms
    try:
        check_protocol(policy, connect_protocol)
    except PolicyError as wrong:
        raise ValueError(f"--{wrong}") from wrong
    member = MemberSettings(
        group_id=args.group,
        worker=WorkerId(worker),
        url=f"process://{socket.gethostname()}/{os.getpid()}",
        protocol=connect_protocol,
        learned=LearnedRule(args.learned),
        limits=learner_limits_of(args),
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=args.heartbeat_interval_ms,
        rebalance_timeout_ms=args.rebalance_timeout_ms,
        lease_margin_ms=args.lease_margin_ms,
    )
    check_goes_together(name, member)
    return WorkerSpec(
        member=member,
        group_protocol=name,
        coordinators=Coordinators(args.coordinators),
        slots=args.slots,
        until=Until(args.until),
        policy=policy,
        idle_timeout_ms=None if args.idle_timeout is None else round(args.idle_timeout * 1000),
    )


def _equipment(args: argparse.Namespace) -> Equipment:
    """:raises ValueError: naming the option that is wrong"""
    if args.max_spark_deaths < 1:
        raise ValueError(f"--max-spark-deaths {args.max_spark_deaths}: must be at least 1")
    if not 1 <= args.progress_interval < NEVER_S:
        raise ValueError(f"--progress-interval {args.progress_interval:g}: must be at least 1 s")
    return Equipment(
        runner=args.runner,
        allowed=tuple(args.allow),
        allowed_conf=usable("--allow-session-conf", AllowedConf, tuple(args.allow_session_conf)),
        applications=usable("--allow-application", AllowedApplications, tuple(args.allow_application)),
        checkpoint_root=usable("--checkpoint-root", usable_root, args.checkpoint_root),
        spark_master=usable("--spark-master", usable_master, args.spark_master),
        spark_token=os.environ.get(TOKEN_ENV, ""),
        allowed_servers=usable("--allow-spark-server", AllowedServers.of, tuple(args.allow_spark_server)),
        detach=args.detach,
        spark_conf=conf_of(SPARK, args.spark_conf),
        max_spark_deaths=args.max_spark_deaths,
        progress_s=args.progress_interval,
    )


def _when_signalled(returns_ms: int) -> Absence:
    """A supervisor that ends a worker usually starts it again, as in an upgrade or a restart of the host."""
    return Absence(left=LeaveReason.RESTARTING if returns_ms else LeaveReason.STOPPED, returns_ms=returns_ms)


async def _work(kafka: KafkaSettings, spec: WorkerSpec, returns_ms: int, equipment: Equipment) -> Outcome:
    await reach(kafka)
    exit_requests = ExitRequests()
    settings = spec.settings(WorkerPhase.STABLE, returns_ms)
    holding = Holding(
        protocol=spec.protocol(returns_ms),
        settings=settings,
        place=InThisProcess(equipment),
        observer=observer_of(spec.member, destination()),
    )
    collect_rarely()
    async with held(holding, kafka, exit_requests) as worker:
        leave_when_signalled(functools.partial(exit_requests.leave, absence=_when_signalled(returns_ms)))
        outcome, _ = await worker.run()
        return outcome
