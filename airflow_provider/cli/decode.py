"""``cospark decode``: what is in bytes that were found in a packet dump, a debug log or a topic."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.cli.lines import STDIN, open_lines
from airflow_provider.cli.terminal import complain, say
from airflow_provider.declarative.wire import MalformedMessageError
from airflow_provider.declarative.wire.hex_lines import decode_record_line, decode_reply_line, decode_request_line
from airflow_provider.protocol.embedded import codec_of_bytes
from airflow_provider.protocol.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.protocol.model import NO_TASKS, Assignment, MalformedEmbeddedError, WorkerState, tasks_to_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Reads one hex string a line and writes one JSON object a line. A record has two, its key and its value, with a"
        " tab between them; without a tab it is a tombstone. A line that can't be decoded gives"
        ' {"error": "..."}, and the exit status is 1 in the end.'
    )
    parser.add_argument(
        "kind",
        choices=list(_DECODERS),
        help="metadata: of a JoinGroup; assignment: of a SyncGroup;"
        " record, request, reply: of a declarative group (KIP-848)",
    )
    parser.add_argument("file", metavar="FILE", help=f"where the hex strings are; {STDIN} is standard input")


def run(args: argparse.Namespace) -> int:
    """Decode every line of ``args.file``, each before the next is read.

    :returns: 0 if every line could be decoded, 1 if not, 2 if the file can't be opened
    """
    decode = _DECODERS[args.kind]
    try:
        opened = open_lines(args.file)
    except OSError as wrong:
        complain(f"cospark decode: can't read {args.file}: {wrong.strerror}")
        return 2
    status = 0
    with opened as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                answer = decode(line)
            except MalformedEmbeddedError as wrong:
                answer = {"error": str(wrong)}
                status = 1
            except MalformedMessageError as wrong:
                answer = {"error": f"line {number}: {wrong}"}
                status = 1
            say(json.dumps(answer))
    return status


def metadata_to_json(state: WorkerState | ExtensibleState) -> dict[str, Any]:
    """The keys of v0 to v2, and those that v3 adds."""
    if isinstance(state, ExtensibleState):
        return _extensible_metadata_to_json(state)
    return {
        "version": state.version,
        "url": state.url,
        "config_offset": state.config_offset,
        "assignment": None if state.assignment is None else assignment_to_json(state.assignment),
    }


def assignment_to_json(assignment: Assignment | ExtensibleAssignment) -> dict[str, Any]:
    """The keys of v0 to v2, and those that v3 adds."""
    if isinstance(assignment, ExtensibleAssignment):
        return _extensible_assignment_to_json(assignment)
    return {
        "version": assignment.version,
        "error": assignment.error,
        "leader": assignment.leader,
        "leader_url": assignment.leader_url,
        "config_offset": assignment.config_offset,
        "assigned": tasks_to_json(assignment.assigned),
        "revoked": tasks_to_json(assignment.revoked),
        "delay": assignment.delay_ms,
    }


def _extensible_metadata_to_json(state: ExtensibleState) -> dict[str, Any]:
    """What the worker owns stands where it does for v1 and v2."""
    how_far = state.how_far()
    owned = Assignment(version=state.version, assigned=state.owned.tasks()) if state.owned else None
    older = WorkerState(version=state.version, url=state.url, config_offset=state.config_offset, assignment=owned)
    return metadata_to_json(older) | {
        "learning": tasks_to_json(how_far),
        "progress": [progress for _, progress in sorted(how_far.items())],
        "ready": tasks_to_json(state.ready.tasks()),
        "leaving": state.leaving,
        "slots": state.slots,
        "weight": state.weight,
        "epoch": state.epoch,
        "failed": tasks_to_json(state.failed.tasks()),
    }


def _extensible_assignment_to_json(assignment: ExtensibleAssignment) -> dict[str, Any]:
    """``assigned`` is all that the worker is to own, as in v0."""
    target = None if assignment.target is None else assignment.target.tasks()
    older = Assignment(
        version=assignment.version,
        error=assignment.error,
        leader=assignment.leader,
        leader_url=assignment.leader_url,
        config_offset=assignment.config_offset,
        assigned=target or NO_TASKS,
        revoked=assignment.revoked.tasks(),
        delay_ms=assignment.delay_ms,
    )
    return assignment_to_json(older) | {
        "target": None if target is None else tasks_to_json(target),
        "learning": tasks_to_json(assignment.learning.tasks()),
        "learned": tasks_to_json(assignment.learned.tasks()),
        "another_round": assignment.another_round,
        "shutdown": assignment.shutdown,
        "epoch": assignment.epoch,
    }


def _metadata(line: bytes) -> dict[str, Any]:
    data = _from_hex(line)
    return metadata_to_json(codec_of_bytes(data).decode_metadata(data))


def _assignment(line: bytes) -> dict[str, Any]:
    data = _from_hex(line)
    return assignment_to_json(codec_of_bytes(data).decode_assignment(data))


def _from_hex(line: bytes) -> bytes:
    try:
        return bytes.fromhex(line.decode("ascii"))
    except ValueError as wrong:
        raise MalformedEmbeddedError(f"not a hex string: {wrong}") from None


_DECODERS: Final[Mapping[str, Callable[[bytes], dict[str, Any]]]] = MappingProxyType(
    {
        "metadata": _metadata,
        "assignment": _assignment,
        "record": decode_record_line,
        "request": decode_request_line,
        "reply": decode_reply_line,
    }
)
