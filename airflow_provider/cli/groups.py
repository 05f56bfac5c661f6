"""``cospark groups``: which groups there are, and who is in one."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from airflow_provider.cli.connection import add_connection_arguments, settings_of
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.log_errors import LogError, NoTopicError
from airflow_provider.kafka.logs import GroupLogs
from airflow_provider.kafka.messages import GroupDescription
from airflow_provider.kafka.progress import converged
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.kafka.shared import shared_transport
from airflow_provider.kafka.status_view import StatusSnapshot
from airflow_provider.membership.model import PROTOCOL_TYPE, WorkerId, tasks_to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the groups that speak Connect's protocol")
    add_connection_arguments(listing)
    describe = actions.add_parser("describe", help="members, epoch and tasks of a group")
    describe.add_argument("group")
    describe.add_argument("--json", action="store_true", help="as one JSON object")
    add_connection_arguments(describe)


def run(args: argparse.Namespace) -> int:
    """0: done; 1: there is no such group; 2: not possible."""
    try:
        settings = settings_of(args)
        return asyncio.run(_list(settings) if args.action == "list" else _describe(settings, args))
    except (SettingsError, LogError, TransportError) as wrong:
        print(f"cospark groups {args.action}: {wrong}", file=sys.stderr)
        return 2


async def _list(settings: KafkaSettings) -> int:
    async with shared_transport(settings) as transport:
        answer = await transport.list_groups()
    for group in answer.groups:
        if group.protocol_type == PROTOCOL_TYPE:
            print(f"{group.group_id}: {group.state or 'state not told'}")
    return 0


async def _describe(settings: KafkaSettings, args: argparse.Namespace) -> int:
    async with shared_transport(settings) as transport:
        (description,) = await transport.describe([args.group])
    status = await _read_status(settings, args.group)
    if not description.members and status.group is None:
        print(f"cospark groups describe: there is no group {args.group!r}", file=sys.stderr)
        return 1
    about = describe(description, status)
    print(json.dumps(about, indent=2) if args.json else as_text(about))
    return 0


async def _read_status(settings: KafkaSettings, group: str) -> StatusSnapshot:
    """What the status topic says; a group whose topics are missing (of Java workers, say) has nothing to say."""
    logs = GroupLogs(settings, group)
    logs.attach()
    try:
        await logs.catch_up()
        return logs.status
    except NoTopicError:
        return StatusSnapshot()
    finally:
        await logs.aclose()


def describe(description: GroupDescription, status: StatusSnapshot) -> dict[str, Any]:
    """A group as one JSON object: the coordinator's view of who is in it, the records' view of who does what."""
    record = status.group
    members = sorted({member.group_instance_id or str(member.member_id) for member in description.members})
    return {
        "group": description.group_id,
        "state": description.state,
        "protocol": description.protocol,
        "epoch": record.epoch if record else None,
        "converged": converged(record, status.workers),
        "leader": record.leader if record else None,
        "reason": record.reason if record else None,
        "delay_ms": record.delay_ms if record else 0,
        "members": [_member(WorkerId(name), status) for name in members],
        "tasks": {
            str(task): {"state": told.state.value, "worker": told.worker, "attempt": told.attempt}
            for task, told in sorted(status.tasks.items())
        },
    }


def _member(name: WorkerId, status: StatusSnapshot) -> dict[str, Any]:
    worker = status.workers.get(name)
    return {
        "worker": name,
        "state": worker.state.value if worker else None,
        "epoch": worker.epoch if worker else None,
        "url": worker.url if worker else None,
        "assigned": tasks_to_json(status.group.owned_by(name)) if status.group else [],
    }


def as_text(about: dict[str, Any]) -> str:
    lines = [
        f"group {about['group']}: {about['state']}, protocol {about['protocol'] or 'none'}",
        f"epoch {about['epoch']} ({'' if about['converged'] else 'not '}converged), led by {about['leader']}",
        f"  because: {about['reason']}",
    ]
    for member in about["members"]:
        names = ", ".join(f"{job}:{index}" if index >= 0 else f"{job}:planner" for job, index in member["assigned"])
        lines.append(f"  {member['worker']} ({member['state'] or 'no record'}): {names or 'nothing'}")
    lines += [
        f"  task {task}: {told['state']} at {told['worker']}, attempt {told['attempt']}"
        for task, told in about["tasks"].items()
    ]
    return "\n".join(lines)
