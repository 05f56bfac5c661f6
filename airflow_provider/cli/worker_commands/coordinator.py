"""``cospark coordinator``: a process that only coordinates declarative groups."""

from __future__ import annotations

import argparse
import signal
import time
from typing import Final

from airflow_provider.cli.shared.connection import add_connection_arguments, settings_of
from airflow_provider.cli.shared.signals import handlers_restored
from airflow_provider.cli.shared.terminal import complain, log_to_terminal
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings, MigrationPolicy
from airflow_provider.group.declarative.server.candidates import shard_server
from airflow_provider.integration.memberships.bridging import bridges_of
from airflow_provider.integration.stats.shard_metering import shard_meter
from airflow_provider.kafka.settings import SettingsError
from airflow_provider.kafka.topics.errors import TopicError

_LOOK_S: Final = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "It serves its share of the groups, and logs which shards these are. SIGTERM or Ctrl-C hands them over to other"
        " coordinators. Exit status: 0 it was signalled; 2 not possible."
    )
    defaults = CoordinatorSettings()
    for name, value, meaning in (
        ("session-timeout-ms", defaults.session_timeout_ms, "a member that is silent for this long is removed"),
        ("heartbeat-interval-ms", defaults.heartbeat_interval_ms, "time between heartbeats of a member"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=value,
            metavar="MS",
            help=f"{meaning}; give all coordinators of a cluster the same (default: %(default)s)",
        )
    parser.add_argument(
        "--migration-policy",
        choices=[policy.value for policy in MigrationPolicy],
        default=MigrationPolicy.DISABLED.value,
        help="bidirectional: a group may have classic and declarative workers at the same time, so that they can be"
        " restarted one by one with the other group protocol. Then all coordinators of the cluster must be dedicated"
        " ones, with the same policy (default: %(default)s)",
    )
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    log_to_terminal()
    try:
        kafka, coordinator = settings_of(args), _settings(args)
        with handlers_restored(), bridges_of(kafka, coordinator) as bridges:
            server = shard_server(kafka, coordinator, bridges, shard_meter())
            signalled: list[int] = []  # not an Event: if the handler interrupts a wait for it, both need its lock
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, _: signalled.append(number))
            server.start()
            try:
                while not signalled:
                    if server.refusal is not None:
                        raise server.refusal
                    time.sleep(_LOOK_S)
            finally:
                server.close()
    except (SettingsError, TopicError, ValueError) as wrong:
        complain(f"cospark coordinator: {wrong}")
        return 2
    return 0


def _settings(args: argparse.Namespace) -> CoordinatorSettings:
    """:raises ValueError: naming the option that is wrong"""
    if not 1 <= args.heartbeat_interval_ms < args.session_timeout_ms < 2**31:
        raise ValueError(
            f"--heartbeat-interval-ms {args.heartbeat_interval_ms}: must be at least 1, and less than"
            f" --session-timeout-ms {args.session_timeout_ms}"
        )
    return CoordinatorSettings(
        session_timeout_ms=args.session_timeout_ms,
        heartbeat_interval_ms=args.heartbeat_interval_ms,
        migration=MigrationPolicy(args.migration_policy),
    )
