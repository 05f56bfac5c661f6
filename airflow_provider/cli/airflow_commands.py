"""``airflow cospark ...``: the same subcommands as a command of Airflow.

Airflow imports this at every call of ``airflow``, so it imports nothing but the names of the subcommands.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider.cli.main import COMMANDS

if TYPE_CHECKING:
    from airflow.cli.cli_config import GroupCommand


class AllArguments:
    """Passes everything after the subcommand's name, including ``--help``, on to ``cospark``.

    It replaces an Airflow ``Arg``. Airflow asks all subcommands for their arguments at every call, but ours have to
    import Kafka's clients and Spark to know theirs, and argparse can't pass options on.
    """

    flags = ("arguments",)

    def add_to_parser(self, parser: argparse.ArgumentParser) -> None:
        def parse(arguments: Sequence[str], namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:
            parsed = argparse.Namespace() if namespace is None else namespace
            parsed.func, parsed.arguments = parser.get_default("func"), list(arguments)
            return parsed, []

        parser.parse_known_args = parse  # type: ignore[method-assign,assignment]  # Airflow parses with this parser


def get_commands() -> list[GroupCommand]:
    """The command that Airflow adds to its command line."""
    from airflow.cli.cli_config import ActionCommand, GroupCommand

    everything: Any = AllArguments()
    return [
        GroupCommand(
            name="cospark",
            help="Groups of workers that share Spark tasks",
            subcommands=tuple(
                ActionCommand(name=name, help=command.help, func=run, args=(everything,))
                for name, command in COMMANDS.items()
            ),
        )
    ]


def run(args: argparse.Namespace) -> None:
    """Pass the arguments on to ``cospark``, and its exit status to the shell."""
    from airflow_provider.cli.main import main

    raise SystemExit(main([args.subcommand, *args.arguments]))
