"""``cospark groups``: lists groups, and shows their members and tasks."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from airflow_provider.cli.group_commands import declarative_groups, group_configs, group_rebalance
from airflow_provider.cli.shared.commands import add_command
from airflow_provider.cli.shared.connection import add_connection_arguments, settings_of
from airflow_provider.cli.shared.names import add_group_argument
from airflow_provider.cli.shared.reading import read_on, without_collector
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.group.live.shared import shared_transport
from airflow_provider.integration.one_shot import list_groups
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.group_requests.messages import GroupDescription
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.kafka.topics.followed import DEFAULT_TIMEOUT_S
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.operations.operations import OperationError
from airflow_provider.state.reports.groups.group_description import as_lines
from airflow_provider.state.reports.groups.group_description_json import group_to_json
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.presence import what_was
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import PROTOCOL_TYPE

_NOBODY: Final = "no worker is in it"
"""The phase of a group with topics that no coordinator knows: it has had no worker yet, or none for long."""

_NOT_YET: Final = frozenset(
    {
        KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
        KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaErrorCode.NOT_COORDINATOR,
    }
)
"""Errors while a group's coordinator is being found, or is still loading. On a new broker, the first request about a
group makes the broker create the topic for groups.
"""
_AGAIN_S: Final = 0.2
_READ_S: Final = 5.0
"""How long a list of groups waits for the topics of groups without members."""
_AT_ONCE: Final = 8
"""How many groups' topics are read at the same time."""
_EMPTY: Final = frozenset({_NOBODY, "Empty", "Dead"})


class _Answer(Protocol):
    @property
    def error(self) -> KafkaErrorCode: ...


AnswerT = TypeVar("AnswerT", bound=_Answer)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = add_command(actions, "list", "list the groups that use Connect's protocol, and those that have topics")
    add_connection_arguments(listing)
    describe = add_command(actions, "describe", "show members, epoch and tasks of a group")
    add_group_argument(describe)
    describe.add_argument("--json", action="store_true", help="as one JSON object, with every task")
    describe.add_argument("--tasks", action="store_true", help="list all tasks, even if there are more than 20")
    add_connection_arguments(describe)
    rebalance = add_command(actions, "rebalance", "rebalance a group now")
    add_group_argument(rebalance)
    group_rebalance.add_arguments(rebalance)
    add_connection_arguments(rebalance)
    configure = add_command(actions, "configure", "show or set how a declarative group is coordinated")
    add_group_argument(configure)
    group_configs.add_arguments(configure)
    add_connection_arguments(configure)


def run(args: argparse.Namespace) -> int:
    """Run the action; 0: done; 1: no such group, or refused; 2: not possible."""
    try:
        settings = settings_of(args)
        if args.action == "configure":
            return group_configs.run(args, settings)
        if args.action == "rebalance":
            return group_rebalance.run(args, settings)
        return asyncio.run(_list(settings) if args.action == "list" else _describe(settings, args))
    except OperationError as refused:
        complain(f"cospark groups {args.action}: group {args.group!r}: {refused}")
        return 1
    except (SettingsError, TopicError, TransportError) as wrong:
        complain(f"cospark groups {args.action}: {wrong}")
        return 2


async def _list(settings: KafkaSettings) -> int:
    async with shared_transport(settings) as transport:
        answer = await _once_coordinated(transport.list_groups)
    if answer.error is not KafkaErrorCode.NONE:
        complain(f"cospark groups list: a broker refused to list its groups: {answer.error.name}")
        return 2
    with_topics = await asyncio.to_thread(list_groups, settings)
    states = dict.fromkeys(with_topics, _NOBODY)
    for group in answer.groups:
        if group.protocol_type == PROTOCOL_TYPE:
            states[group.group_id] = group.state or "state not told"
    if _NOBODY in states.values():
        states |= await declarative_groups.phases(settings)
    empty = [name for name in with_topics if states[name] in _EMPTY]
    turns = asyncio.Semaphore(_AT_ONCE)
    former = dict(zip(empty, await asyncio.gather(*(_what_was(settings, name, turns) for name in empty)), strict=True))
    for name, state in sorted(states.items()):
        say(f"{name}: {former.get(name, state)}")
    return 0


async def _what_was(settings: KafkaSettings, group: str, turns: asyncio.Semaphore) -> str:
    """How a group without members ended, if this can be read quickly. Otherwise progress is not shown: for many groups
    it would fill a page.
    """
    async with turns:
        try:
            _jobs, status, _topics = await _read_topics(settings, group, timeout_s=_READ_S, tell=lambda: None)
        except TopicError:
            return f"{_NOBODY}; its topics could not be read in time"
    return what_was(status)


async def _describe(settings: KafkaSettings, args: argparse.Namespace) -> int:
    with without_collector():
        return await _read_and_describe(settings, args)


async def _read_and_describe(settings: KafkaSettings, args: argparse.Namespace) -> int:
    async with shared_transport(settings) as transport:

        async def ask() -> GroupDescription:
            (description,) = await transport.describe([args.group])
            return description

        description = await _once_coordinated(ask)
    if description.error not in (KafkaErrorCode.NONE, KafkaErrorCode.GROUP_ID_NOT_FOUND):
        complain(f"cospark groups describe: group {args.group!r}: {_in_words(description.error, settings)}")
        return 2
    declared = None if description.members else await declarative_groups.read(settings, args.group)
    if declared is not None:
        description = declarative_groups.description_of(declared)
    jobs, status, has_topics = await _read_topics(settings, args.group)
    if not description.members and not has_topics:
        complain(f"cospark groups describe: there is no group {args.group!r}; to see all groups: cospark groups list")
        return 1
    about = describe(description, jobs, declarative_groups.as_of(declared, jobs, status))
    if args.json:
        about |= declarative_groups.about(declared)
        say(*json.dumps(about, indent=2).split("\n"))
    else:
        say(*as_lines(about, tasks=args.tasks), *declarative_groups.lines(declared))
    return 0


async def _once_coordinated(ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
    """Ask until a coordinator answers; after a while, return its absence as the answer."""
    deadline = time.monotonic() + DEFAULT_TIMEOUT_S
    while True:
        answer = await ask()
        if answer.error not in _NOT_YET or time.monotonic() + _AGAIN_S > deadline:
            return answer
        await asyncio.sleep(_AGAIN_S)


def _in_words(error: KafkaErrorCode, settings: KafkaSettings) -> str:
    if error is KafkaErrorCode.COORDINATOR_NOT_AVAILABLE:
        return (
            f"{error.name} for {DEFAULT_TIMEOUT_S:g} s: are there as many brokers as"
            " offsets.topic.replication.factor asks for?"
        )
    if error is not KafkaErrorCode.GROUP_AUTHORIZATION_FAILED:
        return error.name
    who = settings.principal or "the user of this connection"
    return f"{error.name}: {who} has no right to DESCRIBE it: grant that to {settings.principal or 'that user'}"


async def _read_topics(
    settings: KafkaSettings, group: str, *, timeout_s: float | None = None, tell: Callable[[], None] | None = None
) -> tuple[JobsSnapshot, StatusSnapshot, bool]:
    """The content of the topics, and whether there are any; groups of Java workers have none.

    :param timeout_s, tell: see :func:`read_on`
    """
    topics = GroupTopics(settings, group)
    try:
        topics.attach()
        await read_on(topics, tell, timeout_s=timeout_s)
        return topics.jobs, topics.status, True
    except NoTopicError:
        return JobsSnapshot(), StatusSnapshot(), False
    finally:
        await topics.aclose()


def describe(description: GroupDescription, jobs: JobsSnapshot, status: StatusSnapshot) -> dict[str, Any]:
    """A group as one JSON object: the members according to the coordinator, their tasks according to the records."""
    members = sorted({member.group_instance_id or str(member.member_id) for member in description.members})
    return {
        "group": description.group_id,
        "state": description.state if description.error is KafkaErrorCode.NONE else _NOBODY,
        "protocol": description.protocol,
        **group_to_json(members, jobs, status, wall_ms()),
    }
