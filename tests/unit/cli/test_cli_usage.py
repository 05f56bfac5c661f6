"""What ``cospark`` answers to what it can't understand, how it explains itself, and which release it is."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from airflow_provider.cli.main import COMMANDS as COMMANDS_BY_NAME
from airflow_provider.cli.main import _parser, main

BROKER = ("--bootstrap-servers", "nowhere:9")
COMMANDS = (
    ("groups", "describe", "GROUP"),
    ("jobs", "list", "GROUP"),
    ("jobs", "remove", "GROUP", "job"),
    ("jobs", "retry", "GROUP", "job"),
    ("jobs", "submit", "GROUP", "job", "m:f"),
    ("status", "GROUP"),
    ("worker", "GROUP"),
    ("workers", "drain", "GROUP", "w1"),
    ("workers", "stop", "GROUP", "--all"),
)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """:returns: the first line, and the last one"""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    first, *_, last = told.err.splitlines()
    return first, last


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("group", ["bad group!", "", "..", "g" * 243, "{{ group }}"])
def test_a_name_that_no_group_can_have_is_refused_before_anybody_is_asked(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], group: str
) -> None:
    given = [group if argument == "GROUP" else argument for argument in command]
    usage, error = refused(capsys, *given, *BROKER)
    name = " ".join(command[: command.index("GROUP")])
    assert usage.startswith(f"usage: cospark {name} [-h]")
    assert error.startswith(
        f"cospark {name}: error: argument group: {group!r} must be 1 to 242 letters (a-z, A-Z), digits"
    )


@pytest.mark.parametrize("option", ["--worker", "--instance-id"])
def test_a_name_that_no_worker_can_have_is_refused(capsys: pytest.CaptureFixture[str], option: str) -> None:
    _, error = refused(capsys, "worker", "g", option, "w 1", *BROKER)
    assert "'w 1' must be 1 to 249 letters" in error


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_option_that_a_subcommand_does_not_have_is_answered_with_the_usage_of_that_one(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    given = ["g" if argument == "GROUP" else argument for argument in command]
    usage, error = refused(capsys, *given, "--no-such-option", *BROKER)
    name = " ".join(command[: command.index("GROUP")])
    assert usage.startswith(f"usage: cospark {name} [-h]")
    assert error == f"cospark {name}: error: unrecognized arguments: --no-such-option"


def test_which_release_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"cospark {version('airflow-provider-cooperative-spark')}\n"


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command, with the words by which it is called."""
    for name in COMMANDS_BY_NAME:
        yield from below(name, actions_of(_parser(name))[name])


def below(words: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield words, parser
    for name, action in actions_of(parser).items():
        yield from below(f"{words} {name}", action)


def actions_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (actions,) = [each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction)] or [{}]
    return actions


@pytest.mark.parametrize(("words", "parser"), [pytest.param(*each, id=each[0]) for each in commands()])
def test_help_says_in_sentences_what_a_command_does_and_what_each_argument_means(
    words: str, parser: argparse.ArgumentParser
) -> None:
    description = parser.description or ""
    assert description[:1].isupper(), words
    assert description.endswith("."), words
    explained = [each for each in parser._actions if not isinstance(each, argparse._SubParsersAction)]
    assert not [each.option_strings or each.dest for each in explained if not each.help]
