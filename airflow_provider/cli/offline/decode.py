"""``cospark decode``: decodes bytes that were found in a packet dump, a debug log or a topic."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.cli.offline.lines import STDIN, open_lines
from airflow_provider.cli.shared.terminal import complain, say
from airflow_provider.group.classic.wire.hex_lines import decode_assignment_line, decode_metadata_line
from airflow_provider.group.declarative.protocol.wire import MalformedMessageError
from airflow_provider.group.declarative.protocol.wire.hex_lines import (
    decode_record_line,
    decode_reply_line,
    decode_request_line,
)
from airflow_provider.values.model import MalformedEmbeddedError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read one hex string per line and write one JSON object per line. A record has two, its key and its value,"
        " with a tab between them; without a tab it is a tombstone. A line that can't be decoded gives"
        ' {"error": "..."}, and the exit status is 1.'
    )
    parser.add_argument(
        "kind",
        choices=list(_DECODERS),
        help="metadata: from a JoinGroup; assignment: from a SyncGroup;"
        " record, request, reply: from a declarative group (KIP-848)",
    )
    parser.add_argument("file", metavar="FILE", help=f"the hex strings; {STDIN} is standard input")


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


_DECODERS: Final[Mapping[str, Callable[[bytes], dict[str, Any]]]] = MappingProxyType(
    {
        "metadata": decode_metadata_line,
        "assignment": decode_assignment_line,
        "record": decode_record_line,
        "request": decode_request_line,
        "reply": decode_reply_line,
    }
)
