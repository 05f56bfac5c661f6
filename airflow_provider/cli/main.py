"""The entry point of ``cospark``: its subcommands, which are modules of their own.

A subcommand is a module with ``add_arguments(parser)`` and ``run(args) -> exit status``. It is imported only when it is
called, so that ``cospark decode`` does not take the time to import a Kafka client or Airflow.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, cast

from airflow_provider import __version__
from airflow_provider.cli.shared.commands import add_command
from airflow_provider.worker.process_end import GRACE_S, ending_in_time


class Command(NamedTuple):
    """A subcommand: the module that implements it, and its help text."""

    module: str
    help: str


class CommandModule(Protocol):
    """What a module named in :data:`COMMANDS` offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "broker": Command(
            "airflow_provider.cli.trials.broker", "start a Kafka broker on this machine, to try things out"
        ),
        "coordinator": Command("airflow_provider.cli.worker_commands.coordinator", "coordinate declarative groups"),
        "decode": Command("airflow_provider.cli.offline.decode", "decode bytes of a group's protocol"),
        "groups": Command(
            "airflow_provider.cli.group_commands.groups", "list, describe, rebalance and configure groups"
        ),
        "jobs": Command("airflow_provider.cli.job_commands.jobs", "submit, show and operate the jobs of a group"),
        "loggers": Command(
            "airflow_provider.cli.worker_commands.loggers", "show, set and reset the log levels of the jobs' code"
        ),
        "reconcile": Command(
            "airflow_provider.cli.offline.reconcile",
            "move members of a declarative group one step towards their targets",
        ),
        "replay": Command("airflow_provider.cli.offline.replay", "run the assignor through a recorded history"),
        "scale": Command("airflow_provider.cli.group_commands.scale", "scale a group down"),
        "spark-connect": Command(
            "airflow_provider.cli.trials.spark_connect",
            "start a Spark Connect server on this machine, to try things out",
        ),
        "status": Command("airflow_provider.cli.group_commands.status", "watch a group: workers, tasks, rebalances"),
        "worker": Command(
            "airflow_provider.cli.worker_commands.worker", "run a worker in the foreground, without Airflow"
        ),
        "workers": Command("airflow_provider.cli.worker_commands.workers", "ask workers to leave their group"),
    }
)

_INTERRUPTED: Final = 130
_OUTPUT_CLOSED: Final = 141


def program() -> int:
    """All that this process does: a subcommand, at whose end the process ends, whatever a job has left running in it.

    :returns: the exit status, as :func:`main`
    """
    return ending_in_time(main, grace_s=GRACE_S)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    :param argv: the arguments after the program's name; by default those of this process
    :returns: the exit status: 0 done, 1 done but with failures, 2 not understood or not possible; as in a shell, 130
        when interrupted and 141 when the reader of its output has gone
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    called = arguments[0] if arguments else None
    args = _parser(called).parse_args(arguments)
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    try:
        status = _load(COMMANDS[args.command]).run(args)
        if sys.stdout is not None:  # None: the process was started without standard output
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends, so it needs an open file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _OUTPUT_CLOSED
    return status


class _Parser(argparse.ArgumentParser):
    """Reports unknown arguments with the usage of the subcommand. By default argparse shows the usage of the outermost
    parser, which does not list a subcommand's options.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, []


def _parser(called: str | None) -> argparse.ArgumentParser:
    """A parser that knows all subcommands by name, and the arguments of the one that is called."""
    parser = _Parser(prog="cospark", description="Show and operate groups of workers that share Spark tasks.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}", help="show the release")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparser = add_command(subparsers, name, command.help)
        if name == called:
            _load(command).add_arguments(subparser)
    return parser


def _load(command: Command) -> CommandModule:
    return cast("CommandModule", importlib.import_module(command.module))


if __name__ == "__main__":
    sys.exit(program())
