"""``cospark worker GROUP``: a worker in the foreground, without Airflow, by the same code."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from airflow_provider.cli.connection import add_connection_arguments, settings_of
from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.shared import shared_group
from airflow_provider.membership.model import ConnectProtocol, WorkerId
from airflow_provider.membership.settings import MemberSettings
from airflow_provider.spark.application import LocalSparkSettings
from airflow_provider.spark.local import LocalRunner
from airflow_provider.spark.noop import NoopRunner
from airflow_provider.spark.runner import OnEvent, Runner
from airflow_provider.worker.executor import TaskExecutor
from airflow_provider.worker.hands import Hands, Released
from airflow_provider.worker.lease import WorkerLease
from airflow_provider.worker.worker import Ending, Outcome, Until, Worker, WorkerSettings

_FOREVER_S = 10.0**9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", help="the group to join")
    parser.add_argument(
        "--instance-id",
        metavar="NAME",
        help="the worker's name in the group: the same after a restart (default: host name and process number)",
    )
    parser.add_argument("--runner", choices=("local", "noop"), default="local", help="what runs the tasks")
    parser.add_argument("--slots", type=int, default=2, metavar="N", help="run so many tasks at once (default: 2)")
    parser.add_argument(
        "--until", choices=[until.value for until in Until], default=Until.FOREVER.value, help="when to leave"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="PREFIX",
        help="import prefix from which entry points may come; may be given several times",
    )
    parser.add_argument(
        "--checkpoint-root",
        metavar="DIR",
        default=str(Path(tempfile.gettempdir()) / "cospark-checkpoints"),
        help="folder or URI of the streaming checkpoints, shared by all workers",
    )
    parser.add_argument("--spark-master", default="local[2]", metavar="URL")
    parser.add_argument(
        "--spark-conf", action="append", default=[], metavar="KEY=VALUE", help="may be given several times"
    )
    timing = parser.add_argument_group("the membership (milliseconds; defaults are Kafka Connect's)")
    defaults = MemberSettings.__dataclass_fields__
    timing.add_argument(
        "--connect-protocol",
        choices=[protocol.value for protocol in ConnectProtocol],
        default=ConnectProtocol.SESSIONED.value,
    )
    for name in ("session_timeout_ms", "heartbeat_interval_ms", "rebalance_timeout_ms", "lease_margin_ms"):
        timing.add_argument(f"--{name.replace('_', '-')}", type=int, default=defaults[name].default, metavar="MS")
    timing.add_argument("--max-delay-ms", type=int, default=300_000, metavar="MS", help="lost tasks wait so long")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        kafka = settings_of(args)
        settings = _worker_settings(args)
    except (SettingsError, ValueError) as wrong:
        print(f"cospark worker: {wrong}", file=sys.stderr)
        return 2
    outcome = asyncio.run(_work(args, kafka, settings))
    print(f"worker {settings.member.worker}: {outcome.ending.value} at epoch {outcome.epoch}")
    if outcome.error:
        print(f"cospark worker: {outcome.error}", file=sys.stderr)
    return 0 if outcome.ending in (Ending.LEFT, Ending.DRAINED) else 1


def _worker_settings(args: argparse.Namespace) -> WorkerSettings:
    name = args.instance_id or f"{socket.gethostname()}-{os.getpid()}"
    if args.slots < 1:
        raise ValueError(f"--slots {args.slots}: a worker needs at least one slot")
    return WorkerSettings(
        member=MemberSettings(
            group_id=args.group,
            worker=WorkerId(name),
            url=f"process://{socket.gethostname()}/{os.getpid()}",
            protocol=ConnectProtocol(args.connect_protocol),
            session_timeout_ms=args.session_timeout_ms,
            heartbeat_interval_ms=args.heartbeat_interval_ms,
            rebalance_timeout_ms=args.rebalance_timeout_ms,
            lease_margin_ms=args.lease_margin_ms,
        ),
        max_delay_ms=args.max_delay_ms,
        slots=args.slots,
        until=Until(args.until),
    )


async def _work(args: argparse.Namespace, kafka: KafkaSettings, settings: WorkerSettings) -> Outcome:
    async with shared_group(kafka, settings.member.group_id) as (transport, logs):
        worker = Worker(settings, transport=transport, logs=logs, make_hands=_hands(args, settings, logs))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, worker.leave, f"signal {number.name}")
        return await worker.run()


def _hands(
    args: argparse.Namespace, settings: WorkerSettings, logs: GroupLogs
) -> Callable[[Released, Released, Callable[[], None], WorkerLease], Hands]:
    conf = dict(pair.split("=", 1) for pair in args.spark_conf)

    def make_hands(
        stopped: Released, finished: Released, changed: Callable[[], None], lease: WorkerLease
    ) -> TaskExecutor:
        def make_runner(on_event: OnEvent) -> Runner:
            if args.runner == "noop":
                return NoopRunner(on_event)
            spark = LocalSparkSettings(master=args.spark_master, app_name=settings.member.worker, conf=conf)
            return LocalRunner(on_event, allowed=args.allow, lease=lease, settings=spark)

        return TaskExecutor(
            worker=settings.member.worker,
            group_id=settings.member.group_id,
            logs=logs,
            make_runner=make_runner,
            slots=settings.slots,
            checkpoint_root=args.checkpoint_root,
            stopped=stopped,
            finished=finished,
            changed=changed,
            linger_s=_FOREVER_S,
        )

    return make_hands
