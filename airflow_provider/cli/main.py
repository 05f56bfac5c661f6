"""The entry point of ``cospark``: which subcommands there are, and nothing of what they do.

A subcommand is a module with ``add_arguments(parser)`` and ``run(args) -> exit status``. It is imported when it is
called and not before: ``cospark decode`` must not pay for a Kafka client or for Airflow.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn, Protocol, cast


class Command(NamedTuple):
    module: str
    help: str


class CommandModule(Protocol):
    """What a module named in :data:`COMMANDS` offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {
        "broker": Command("airflow_provider.cli.broker", "start a real Kafka broker on this machine"),
        "coordinator": Command(
            "airflow_provider.cli.coordinator", "coordinate declarative groups, for all who are in them"
        ),
        "decode": Command("airflow_provider.cli.decode", "show what is in bytes of a group's protocol"),
        "groups": Command("airflow_provider.cli.groups", "list groups, or describe one"),
        "jobs": Command("airflow_provider.cli.jobs", "submit the jobs of a group, look at them, steer them"),
        "loggers": Command("airflow_provider.cli.loggers", "set what the jobs' code logs in workers that run"),
        "reconcile": Command("airflow_provider.cli.reconcile", "take members of a group a step to their targets"),
        "replay": Command("airflow_provider.cli.replay", "run the assignor through a recorded history"),
        "scale": Command("airflow_provider.cli.scale", "have a group get smaller: workers leave it, and others stay"),
        "spark-connect": Command("airflow_provider.cli.spark_connect", "start a Spark Connect server on this machine"),
        "status": Command("airflow_provider.cli.status", "watch a group: workers, tasks, rebalances"),
        "worker": Command("airflow_provider.cli.worker", "run a worker in the foreground, without Airflow"),
        "workers": Command("airflow_provider.cli.workers", "ask workers of a group to leave it"),
    }
)

_DISTRIBUTION: Final = "airflow-provider-cooperative-spark"
_INTERRUPTED: Final = 130
_OUTPUT_CLOSED: Final = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand.

    :param argv: the arguments after the program's name; by default those of this process
    :returns: the exit status: 0 done, 1 done but with failures, 2 not understood or not possible; as a shell has it,
        130 when interrupted and 141 when the reader of its output went away
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    called = arguments[0] if arguments else None
    parser = _parser(called)
    args = parser.parse_args(arguments)
    try:
        status = _load(COMMANDS[args.command]).run(args)
        if sys.stdout is not None:  # it is None where the process was started without one
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends: give it something that takes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _OUTPUT_CLOSED
    return status


class _Parser(argparse.ArgumentParser):
    """Answers what it does not know with its own usage: argparse leaves that to the outermost parser, whose usage says
    nothing of a subcommand's options.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, []


class _Version(argparse.Action):
    """Looks for the version only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        from airflow_provider.cli.terminal import say

        say(f"{parser.prog} {version(_DISTRIBUTION)}")
        parser.exit()


def _parser(called: str | None) -> argparse.ArgumentParser:
    """A parser that knows all subcommands by name, and the arguments of the one that is called."""
    parser = _Parser(
        prog="cospark", description="Groups of workers that share Spark tasks, seen and steered from a terminal."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="which release this is")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=command.help, description=command.help)
        if name == called:
            _load(command).add_arguments(subparser)
    return parser


def _load(command: Command) -> CommandModule:
    return cast("CommandModule", importlib.import_module(command.module))


if __name__ == "__main__":
    sys.exit(main())
