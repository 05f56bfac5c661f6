"""What others have written into names and errors stays text on the terminal that shows it."""

from __future__ import annotations

import argparse
import ast
import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from group_records import record_of
from rich.console import Console
from stand_ins import MemoryTopics

from airflow_provider.cli.group_commands import deserted, groups, status
from airflow_provider.cli.job_commands import jobs
from airflow_provider.cli.shared import reading
from airflow_provider.cli.shared.terminal import complain, printable, say
from airflow_provider.cli.worker_commands import workers
from airflow_provider.kafka.group_requests.messages import DescribedMember, GroupDescription
from airflow_provider.kafka.topics.rights import WATCHER
from airflow_provider.state.records import JobDefinition, PlanRecord, TaskFailure, TaskState, TaskStatus
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import Epoch, MemberId, TaskId, WorkerId

EVIL = "w\x1b[2J\x1b]52;c;ZXZpbA==\x07\r\x9b31m\u202e\nw9: fine"
SHOWN = r"w\x1b[2J\x1b]52;c;ZXZpbA==\x07\r\x9b31m\u202e\nw9: fine"
WORKER = WorkerId(EVIL)
ROOT = Path(__file__).parents[4]


def test_what_is_not_to_be_seen_is_shown_as_python_writes_it() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("tab\tand grüße, 日本, 🎉 [/bold] \\x1b") == "tab\tand grüße, 日本, 🎉 [/bold] \\x1b"
    assert printable("argument \udcff") == "argument \\udcff"


def test_what_is_printed_keeps_its_lines_and_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    say("one", EVIL)
    complain("two:\nlines\x1b")
    assert tuple(capsys.readouterr()) == (f"one\n{SHOWN}\n", "two:\nlines\\x1b\n")


async def _evil_group() -> MemoryTopics:
    """Whose worker is named so, and whose task has failed with such an error."""
    topics = MemoryTopics()
    job = JobDefinition(name="a", entry_point="m:f", run_key=EVIL)
    plan = PlanRecord.of(job, [{}], planned_by=WORKER, at_ms=0)
    await topics.submit(job)
    await topics.publish_plan(plan)
    task = TaskId("a", 0)
    await topics.publish_task(
        TaskStatus(
            task=task,
            state=TaskState.FAILED,
            epoch=Epoch(5),
            worker=WORKER,
            run_key=EVIL,
            fingerprint=plan.fingerprints[0],
            error=TaskFailure.of(EVIL),
        )
    )
    await topics.publish_group(record_of({WORKER: frozenset({task})}, leader=WORKER, reason=EVIL))
    return topics


def _only_text(out: str) -> list[str]:
    """The lines, which must be ours and in which the evil must be seen."""
    lines = out.splitlines()
    assert all(line.isprintable() for line in lines), lines
    assert "w9: fine" not in {line.strip() for line in lines}
    assert "\\x1b[2J" in out
    return lines


@pytest.fixture
def evil(monkeypatch: pytest.MonkeyPatch) -> MemoryTopics:
    topics = asyncio.run(_evil_group())

    async def reached(_settings: object) -> None: ...

    async def seems_deserted(_group: str, _settings: object) -> bool:
        return False

    monkeypatch.setattr(deserted, "seems_deserted", seems_deserted)
    for module in (jobs, groups, status, workers, reading):
        monkeypatch.setattr(module, "GroupTopics", lambda _settings, _group, _needs=WATCHER: topics, raising=False)
        monkeypatch.setattr(module, "reach", reached, raising=False)
        monkeypatch.setattr(module, "settings_of", lambda _args: SimpleNamespace(principal=None), raising=False)
    return topics


def test_of_cospark_jobs(evil: MemoryTopics, capsys: pytest.CaptureFixture[str]) -> None:
    assert jobs.run(argparse.Namespace(action="list", group="g", json=False, expand=False)) == 0
    lines = _only_text(capsys.readouterr().out)
    in_one_line = SHOWN.replace(r"\r", "; ").replace(r"\n", "; ")
    assert lines == [f"a (run {SHOWN}): failed: 1 failed", f"  a:0: {in_one_line}"]


def test_of_cospark_groups(
    evil: MemoryTopics, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Transport:
        async def describe(self, _groups: list[str]) -> list[GroupDescription]:
            member = DescribedMember(
                member_id=MemberId("m"),
                group_instance_id=WORKER,
                client_id="c",
                client_host="h",
                metadata=b"",
                assignment=b"",
            )
            return [
                GroupDescription(
                    error=KafkaErrorCode.NONE,
                    group_id="g",
                    state=EVIL,
                    protocol_type="connect",
                    protocol="",
                    members=(member,),
                )
            ]

    @asynccontextmanager
    async def shared(_settings: Any) -> Any:
        yield Transport()

    monkeypatch.setattr(groups, "shared_transport", shared)
    assert groups.run(argparse.Namespace(action="describe", group="g", json=False, tasks=False)) == 0
    assert f"group g: {SHOWN}" in _only_text(capsys.readouterr().out)


def test_of_cospark_workers(evil: MemoryTopics, capsys: pytest.CaptureFixture[str]) -> None:
    assert workers.run(argparse.Namespace(action="stop", group="g", all=True, workers=[], wait=None)) == 0
    assert _only_text(capsys.readouterr().out) == [f"asked to stop: {SHOWN}"]


def test_of_cospark_status(
    evil: MemoryTopics, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "Console", lambda: Console(width=400))
    assert status.run(argparse.Namespace(group="g", once=True, json=False)) == 0
    _only_text(capsys.readouterr().out)


_LOGS = f"""
import logging
from airflow_provider.cli.shared.terminal import log_to_terminal
log_to_terminal()
try:
    raise ValueError({EVIL!r})
except ValueError:
    logging.exception("Task %s failed", {EVIL!r})
"""


def test_of_the_log_of_cospark_worker() -> None:
    told = subprocess.run([sys.executable, "-c", _LOGS], capture_output=True, text=True, check=True).stderr
    lines = told.splitlines()
    assert " ERROR Task w\\x1b[2J" in lines[0]
    assert "  Traceback (most recent call last):" in lines
    assert all(line.isprintable() and line.startswith("  ") for line in lines[1:]), "no line looks like another record"


def test_nothing_is_printed_past_it() -> None:
    """The demo prints its own words only."""
    printing = {
        file.name
        for room in ("airflow_provider/cli", "airflow_provider/cli/offline", "airflow_provider/cli/trials")
        for file in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert printing == {"terminal.py"}
