"""``cospark decode record|request|reply`` as somebody at a terminal sees it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.cli.main import main

KEY = "0007 0001 65 0002 7731"
VALUE = "0000 00000005 00 02 02 07 696e67657374 02 07 696e67657374 00000000 00 00 0000 03 beef 00"
RECORD_JSON = {
    "key": {"version": 7, "GroupId": "e", "MemberId": "w1"},
    "value": {
        "MemberEpoch": 5,
        "Error": 0,
        "ConnectorsTasks": [{"Connectors": ["ingest"], "Tasks": [{"ConnectorId": "ingest", "TaskId": 0}]}],
        "Version": 0,
        "Metadata": "beef",
    },
}
REQUEST = "03e9 0000 00000008 00000002 00 02 67 02 6d 00000005 00 ffffffff 00 00 00 00"
REQUEST_JSON = {
    "header": {"ApiKey": 1001, "ApiVersion": 0, "CorrelationId": 8, "ReplyPartition": 2},
    "body": {
        "GroupId": "g",
        "MemberId": "m",
        "MemberEpoch": 5,
        "InstanceId": None,
        "RebalanceTimeoutMs": -1,
        "ServerAssignor": None,
        "ClientAssignors": None,
        "ConnectorsAndTasks": None,
    },
}
REPLY = "03eb 0000 00000009 00 00000000 006e 03 6e6f 00"
REPLY_JSON = {
    "header": {"ApiKey": 1003, "ApiVersion": 0, "CorrelationId": 9},
    "body": {"ThrottleTimeMs": 0, "ErrorCode": 110, "ErrorMessage": "no"},
}


def plain(hexed: str) -> str:
    return hexed.replace(" ", "")


def answers(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_records_and_tombstones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dump"
    file.write_text(f"{plain(KEY)}\t{plain(VALUE)}\n\n{KEY}\t{VALUE.upper()}\r\n{plain(KEY)}")
    assert main(["decode", "record", str(file)]) == 0
    assert answers(capsys) == [RECORD_JSON, RECORD_JSON, RECORD_JSON | {"value": None}]


@pytest.mark.parametrize(("kind", "data", "read"), [("request", REQUEST, REQUEST_JSON), ("reply", REPLY, REPLY_JSON)])
def test_requests_and_replies(
    kind: str, data: str, read: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the key of their record before them, too."""
    lines = f"{plain(data)}\n67\t{plain(data)}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert main(["decode", kind, "-"]) == 0
    assert answers(capsys) == [read, read]


def test_damaged_lines_are_named_and_spoil_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = ["00070001", f"{KEY}\t", f"{KEY}\t{VALUE[:-2]}", f"{KEY}\t00zz", "0003000165\t000", f"{KEY}\t00\t00"]
    file = tmp_path / "dump"
    file.write_text("\n".join([*damaged, f"{KEY}\t{VALUE}"]))
    assert main(["decode", "record", str(file)]) == 1
    *wrong, last = answers(capsys)
    assert last == RECORD_JSON
    assert [list(answer) for answer in wrong] == [["error"]] * len(damaged)
    assert [answer["error"] for answer in wrong] == [
        "line 1: key.GroupId at byte 4: expected a byte, 0 remain",
        "line 2: value.version at byte 0: expected 2 bytes, 0 remain",
        "line 3: value.(tagged fields) at byte 35: expected an unsigned varint, the bytes end after 0 of it",
        "line 4: value at byte 1: expected two hex digits, found 'z'",
        "line 5: value at byte 1: expected two hex digits, found '0' alone",
        "line 6: value at byte 1: expected two hex digits, found '\\t'",
    ]


def test_a_request_of_an_unknown_api(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dump"
    file.write_text(REQUEST.replace("03e9", "0003"))
    assert main(["decode", "request", str(file)]) == 1
    (answer,) = answers(capsys)
    assert answer["error"] == "line 1: header.ApiKey at byte 0: expected 1001 or 1002 or 1003 or 1004, found 3"
