"""``cospark`` and ``cospark decode`` as somebody at a terminal sees them."""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE_S

from airflow_provider.cli.main import COMMANDS, main
from airflow_provider.group.classic.wire import Codec, v3, v4
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState, learning
from airflow_provider.group.classic.wire.v1 import encode_assignment, encode_metadata
from airflow_provider.values.model import Assignment, ConfigOffset, Epoch, TaskId, WorkerState, planner_of
from airflow_provider.values.packed_tasks import PackedTasks

OWNED = Assignment(
    version=2,
    leader="w1",
    leader_url="http://w1/",
    config_offset=ConfigOffset(7),
    assigned=frozenset({TaskId("b", 10), TaskId("b", 9), planner_of("b"), TaskId("a", 0)}),
    revoked=frozenset({TaskId("c", 1)}),
    delay_ms=300_000,
)
OWNED_JSON = {
    "version": 2,
    "error": 0,
    "leader": "w1",
    "leader_url": "http://w1/",
    "config_offset": 7,
    "assigned": [["a", 0], ["b", -1], ["b", 9], ["b", 10]],
    "revoked": [["c", 1]],
    "delay": 300_000,
}
STATE = WorkerState(version=2, url="http://w2/", config_offset=ConfigOffset(8), assignment=OWNED)
STATE_JSON = {"version": 2, "url": "http://w2/", "config_offset": 8, "assignment": OWNED_JSON}
NEWCOMER = WorkerState(version=1, url="é", config_offset=ConfigOffset(-1))
NEWCOMER_JSON = {"version": 1, "url": "é", "config_offset": -1, "assignment": None}


def answers(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_metadata_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dump"
    file.write_text(f"{encode_metadata(STATE).hex()}\n\n  \n{encode_metadata(NEWCOMER).hex().upper()}")
    assert main(["decode", "metadata", str(file)]) == 0
    assert answers(capsys) == [STATE_JSON, NEWCOMER_JSON]


def test_assignments_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lines = io.TextIOWrapper(io.BytesIO(encode_assignment(OWNED).hex().encode() + b"\r\n"))
    monkeypatch.setattr(sys, "stdin", lines)
    assert main(["decode", "assignment", "-"]) == 0
    assert answers(capsys) == [OWNED_JSON]


LEARNS, PROGRESS = learning({TaskId("c", 1): 0.5, TaskId("c", 0): 1.0})
EXTENSIBLE_STATE = ExtensibleState(
    url="http://w2/",
    config_offset=ConfigOffset(8),
    owned=PackedTasks.of(OWNED.assigned),
    learning=LEARNS,
    progress=PROGRESS,
    ready=PackedTasks.of({TaskId("c", 0)}),
    leaving="scaled down",
    slots=4,
    weight=1.5,
    epoch=Epoch(7),
    failed=PackedTasks.of({TaskId("c", 1)}),
)
NOTHING_SAID = {"error": 0, "leader": "", "leader_url": "", "config_offset": -1, "revoked": [], "delay": 0}
EXTENSIBLE_STATE_JSON = {
    "version": 3,
    "url": "http://w2/",
    "config_offset": 8,
    "assignment": {"version": 3, "assigned": OWNED_JSON["assigned"], **NOTHING_SAID},
    "learning": [["c", 0], ["c", 1]],
    "progress": [1.0, 0.5],
    "ready": [["c", 0]],
    "leaving": "scaled down",
    "slots": 4,
    "weight": 1.5,
    "epoch": 7,
    "failed": [["c", 1]],
}
EXTENSIBLE_ASSIGNMENT = ExtensibleAssignment(
    leader="w1",
    leader_url="http://w1/",
    config_offset=ConfigOffset(7),
    target=PackedTasks.of(OWNED.assigned),
    revoked=PackedTasks.of(OWNED.revoked),
    delay_ms=300_000,
    learning=LEARNS,
    learned=PackedTasks.of({TaskId("a", 0)}),
    another_round=True,
    shutdown=True,
    epoch=Epoch(7),
)
EXTENSIBLE_ASSIGNMENT_JSON = {
    **OWNED_JSON,
    "version": 3,
    "target": OWNED_JSON["assigned"],
    "learning": [["c", 0], ["c", 1]],
    "learned": [["a", 0]],
    "another_round": True,
    "shutdown": True,
    "epoch": 7,
}


@pytest.mark.parametrize(("codec", "version"), [(v3, 3), (v4, 4)], ids=["extensible", "compressed"])
def test_versions_3_and_4_add_keys(
    codec: Codec[ExtensibleState, ExtensibleAssignment],
    version: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "dump"
    states = [EXTENSIBLE_STATE, ExtensibleState()]
    file.write_text("\n".join(codec.encode_metadata(replace(state, version=version)).hex() for state in states))
    assert main(["decode", "metadata", str(file)]) == 0
    full, empty = answers(capsys)
    assert full == json.loads(json.dumps(EXTENSIBLE_STATE_JSON).replace('"version": 3', f'"version": {version}'))
    assert empty.keys() == full.keys() > STATE_JSON.keys()
    assert (empty["assignment"], empty["learning"], empty["leaving"], empty["slots"]) == (None, [], None, None)

    words = [EXTENSIBLE_ASSIGNMENT, ExtensibleAssignment(error=1)]
    file.write_text("\n".join(codec.encode_assignment(replace(word, version=version)).hex() for word in words))
    assert main(["decode", "assignment", str(file)]) == 0
    full, empty = answers(capsys)
    assert full == EXTENSIBLE_ASSIGNMENT_JSON | {"version": version}
    assert empty.keys() == full.keys() > OWNED_JSON.keys()
    assert (empty["error"], empty["assigned"], empty["target"], empty["shutdown"]) == (1, [], None, False)


def test_damaged_bytes_of_version_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dump"
    file.write_text("0003ffffffff")
    assert main(["decode", "assignment", str(file)]) == 1
    assert answers(capsys) == [{"error": "table at byte 4294967297: lies outside of 6 bytes"}]


def test_without_a_standard_input_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["decode", "metadata", "-"]) == 2
    assert capsys.readouterr().err == "cospark decode: can't read -: Bad file descriptor\n"


def test_a_bad_line_spoils_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = encode_metadata(NEWCOMER).hex().encode()
    file = tmp_path / "dump"
    file.write_bytes(b"\n".join([good, b"0001", b"abc", b"\xff\xfe", b"hello", good]))
    assert main(["decode", "metadata", str(file)]) == 1
    first, truncated, *no_hex, last = answers(capsys)
    assert first == last == NEWCOMER_JSON
    assert truncated == {"error": "url at byte 2: needs 2 bytes, 0 remain"}
    assert len(no_hex) == 3
    assert all(list(answer) == ["error"] and answer["error"].startswith("not a hex string") for answer in no_hex)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_cannot_be_read(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / name
    assert main(["decode", "metadata", str(file)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"can't read {file}" in captured.err


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["decode"], ["decode", "nonsense", "-"]])
def test_arguments_not_understood(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: cospark" in capsys.readouterr().err


def test_help_lists_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_subcommand_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(COMMANDS[name].module)
    assert callable(module.run)
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert f"usage: cospark {name}" in capsys.readouterr().out


COSPARK = [sys.executable, "-m", "airflow_provider.cli.main"]


@pytest.fixture
def decoder() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COSPARK, "decode", "metadata", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield process
        process.kill()


def test_each_line_is_answered_before_the_next_is_written(decoder: subprocess.Popen[str]) -> None:
    assert decoder.stdin is not None
    assert decoder.stdout is not None
    for state, answer in [(STATE, STATE_JSON), (NEWCOMER, NEWCOMER_JSON)]:
        decoder.stdin.write(encode_metadata(state).hex() + "\n")
        decoder.stdin.flush()
        assert json.loads(decoder.stdout.readline()) == answer
    decoder.stdin.close()
    assert decoder.wait(timeout=DEADLINE_S) == 0


def test_it_ends_quietly_when_nobody_reads_its_output(decoder: subprocess.Popen[str], capfd: Any) -> None:
    assert decoder.stdin is not None
    assert decoder.stdout is not None
    decoder.stdout.close()
    decoder.stdin.write(encode_metadata(STATE).hex() + "\n")
    decoder.stdin.close()
    assert decoder.wait(timeout=DEADLINE_S) == 141
    assert capfd.readouterr().err == ""


def test_it_starts_fast_because_it_imports_nothing_heavy(tmp_path: Path) -> None:
    file = tmp_path / "dump"
    file.write_text(encode_metadata(STATE).hex())
    program = (
        "import sys; from airflow_provider.cli.main import main; status = main(sys.argv[1:]);"
        "heavy = {'airflow', 'pyspark', 'confluent_kafka', 'aiokafka', 'asyncio'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "decode", "metadata", str(file)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == STATE_JSON
