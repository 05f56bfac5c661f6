"""The sessions of a group's tasks have one time zone. Workers that differ are warned of. Logged times say theirs."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from busy_group import coordinator
from group_records import record_of
from rich.console import Console
from stand_ins import LonelyCoordinator, MemoryTopics
from waiting import DEADLINE_S, eventually
from worker_life import LONG, MEMBER

from airflow_provider.assignment.policy import Deferred
from airflow_provider.cli.group_commands.groups import describe
from airflow_provider.cli.group_commands.status import render
from airflow_provider.group.live.classic.classic_membership import ClassicMemberships
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.reports.groups.group_description import as_lines
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.views.groups import group_in_short
from airflow_provider.values.model import Epoch, MemberId, WorkerId
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.hands.in_process import InThisProcess
from airflow_provider.worker.reporting.narrator import Narrator
from airflow_provider.worker.settings import Until, WorkerSettings
from airflow_provider.worker.worker import Worker

pytestmark = pytest.mark.turned_clock

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")
GROUP = record_of(members={W1: MemberId("1"), W2: MemberId("2"), W3: MemberId("3")}, leader=W1)
SAID = (
    "the sessions of tasks have different time zones, so one instant may have two dates: Asia/Tokyo at w2; UTC at w1;"
    " give all workers the same spark.sql.session.timeZone"
)


def group(*zones: str) -> StatusSnapshot:
    workers = {
        name: WorkerStatus(worker=name, state=WorkerPhase.STABLE, epoch=GROUP.epoch, slots=1, time_zone=zone)
        for name, zone in zip((W1, W2, W3), zones, strict=True)
    }
    return StatusSnapshot(group=GROUP, workers=workers)


@pytest.mark.parametrize("zones", [("UTC", "UTC", "UTC"), ("UTC", "UTC", ""), ("", "", "")])
def test_of_workers_that_agree_or_have_not_said_nothing_is_said(zones: tuple[str, ...]) -> None:
    assert group_in_short("g", JobsSnapshot(), group(*zones), now_ms=0).wrong == ()


def test_workers_that_differ_are_shown_everywhere() -> None:
    status, jobs = group("UTC", "Asia/Tokyo", ""), JobsSnapshot()
    console = Console(width=300)
    with console.capture() as shown:
        console.print(render("g", jobs, status, wall_ms=0))
    assert SAID in shown.get()
    about = describe(coordinator("w1", "w2", "w3"), jobs, status)
    assert f"  {SAID}" in as_lines(about)
    assert [member["time_zone"] for member in about["members"]] == ["UTC", "Asia/Tokyo", ""]
    assert group_in_short("g", jobs, status, now_ms=0).wrong == (SAID,)


async def test_the_leader_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    topics = MemoryTopics()
    for each in group("UTC", "Asia/Tokyo", "").workers.values():
        await topics.publish_worker(each)
    await topics.publish_group(GROUP)
    with caplog.at_level(logging.WARNING, "airflow_provider.worker.reporting.narrator"):
        for me in (W1, W2):
            narrator = Narrator(topics, me, Epoch(0))
            narrator.tell()
            narrator.tell()
    assert [record.getMessage() for record in caplog.records] == [SAID]


def test_a_record_has_it_or_is_as_that_of_an_older_release() -> None:
    (said, _, unsaid) = group("UTC", "UTC", "").workers.values()
    assert WorkerStatus.from_json(said.to_json()) == said
    assert "time_zone" not in unsaid.to_json()


async def test_a_worker_says_its_own_before_its_spark_has_started() -> None:
    topics = MemoryTopics()
    member, transport = replace(MEMBER, **LONG), cast("Any", LonelyCoordinator())
    settings = WorkerSettings(member=member, until=Until.FOREVER, slots=2)
    equipment = Equipment(runner="local", allowed=(), checkpoint_root=None, spark_master="local[1]")
    worker = Worker(
        settings,
        topics=topics,
        memberships=ClassicMemberships(member, transport, topics, policy=Deferred()),
        make_hands=InThisProcess(equipment).make_hands(settings, topics),
    )
    running = asyncio.ensure_future(worker.run())
    await eventually(lambda: [said.time_zone for said in topics.status.workers.values()] == ["UTC"])
    worker.leave("it has said it")
    await asyncio.wait_for(running, DEADLINE_S)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_times_of_the_log_of_cospark_worker_have_their_offset(zone: str) -> None:
    logs = "from airflow_provider.cli.shared.terminal import *; log_to_terminal(); logging.warning('x')"
    env = {**os.environ, "TZ": zone, "PYTHONPATH": str(Path(__file__).parents[5])}
    told = subprocess.run([sys.executable, "-c", logs], capture_output=True, text=True, check=True, env=env).stderr
    date, time, *rest = told.split()
    assert rest == ["WARNING", "x"]
    assert (len(date), time[12:]) == (10, {"UTC": "+00:00", "Asia/Tokyo": "+09:00"}[zone])
