"""The sessions of a group's tasks have one time zone. Workers that differ are warned of. Logged times say theirs."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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
from airflow_provider.spark.local.application.time_zone import time_zone_of_python
from airflow_provider.state.records import WorkerPhase, WorkerStatus
from airflow_provider.state.reports.groups.group_description import as_lines
from airflow_provider.state.reports.report import GroupReport
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.views.groups import group_in_short
from airflow_provider.values.model import Epoch, MemberId, WorkerId
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.hands.in_process import InThisProcess
from airflow_provider.worker.hands.servers import no_token
from airflow_provider.worker.hands.standby import InTriggerer
from airflow_provider.worker.hands.watching_hands import WatchesInTriggerer
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


PYTHON_SAID = (
    "the processes of workers have different time zones, so one instant may have two dates in Python (collect(), UDFs):"
    " UTC at w1; UTC+09:00 at w2; give all workers the same TZ"
)


def of_python(*zones: str) -> StatusSnapshot:
    """Their sessions have one time zone."""
    status = group("UTC", "UTC", "UTC")
    workers = {
        name: replace(worker, python_time_zone=zone)
        for (name, worker), zone in zip(status.workers.items(), zones, strict=True)
    }
    return replace(status, workers=workers)


@pytest.mark.parametrize("zones", [("UTC", "UTC", "UTC"), ("UTC+09:00", "UTC+09:00", ""), ("", "", "")])
def test_of_processes_that_agree_or_have_not_said_nothing_is_said(zones: tuple[str, ...]) -> None:
    assert group_in_short("g", JobsSnapshot(), of_python(*zones), now_ms=0).wrong == ()


def test_processes_that_differ_are_shown_everywhere() -> None:
    status, jobs = of_python("UTC", "UTC+09:00", ""), JobsSnapshot()
    about = describe(coordinator("w1", "w2", "w3"), jobs, status)
    assert f"  {PYTHON_SAID}" in as_lines(about)
    assert [member["python_time_zone"] for member in about["members"]] == ["UTC", "UTC+09:00", ""]
    report = GroupReport.of(jobs, status)
    assert report is not None
    assert report.to_json()["workers"]["w2"]["python_time_zone"] == "UTC+09:00"
    assert group_in_short("g", jobs, status, now_ms=0).wrong == (PYTHON_SAID,)


@pytest.fixture
def set_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Give this process a time zone."""

    def set_to(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield set_to
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("UTC", "UTC"),
        ("Etc/UTC", "UTC"),
        ("Asia/Tokyo", "UTC+09:00"),
        ("America/St_Johns", "UTC-03:30 (in July UTC-02:30)"),
        ("Europe/Berlin", "UTC+01:00 (in July UTC+02:00)"),
    ],
)
def test_the_time_zone_of_a_process_is_told_by_its_offsets(
    set_zone: Callable[[str], None], zone: str, told: str
) -> None:
    set_zone(zone)
    assert time_zone_of_python() == told


def test_a_record_has_them_or_is_as_that_of_an_older_release() -> None:
    (said, _, unsaid) = group("UTC", "UTC", "").workers.values()
    said = replace(said, python_time_zone="UTC+09:00")
    assert WorkerStatus.from_json(said.to_json()) == said
    assert not unsaid.to_json().keys() & {"time_zone", "python_time_zone"}


async def test_a_worker_says_its_own_before_its_spark_has_started(set_zone: Callable[[str], None]) -> None:
    set_zone("Asia/Tokyo")
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
    assert [said.python_time_zone for said in topics.status.workers.values()] == ["UTC+09:00"]
    worker.leave("it has said it")
    await asyncio.wait_for(running, DEADLINE_S)


async def test_a_triggerer_that_runs_no_task_leaves_what_the_worker_has_said() -> None:
    topics = MemoryTopics()
    said = group("Asia/Tokyo", "", "").workers[W1]
    await topics.publish_worker(replace(said, worker=MEMBER.worker, python_time_zone="UTC+09:00"))
    settings = WorkerSettings(member=MEMBER, until=Until.FOREVER, slots=2)
    watching = WatchesInTriggerer(
        lambda: 0.0, server="sc://spark", token_of=no_token, tell_every_s=30, max_spark_deaths=3
    )
    for place in (InTriggerer(lambda: 0.0), watching):
        make: Any = place.make_hands(settings, topics)
        hands = make(print, print, print, None)
        assert (hands.time_zone, hands.python_time_zone) == ("Asia/Tokyo", "UTC+09:00")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_times_of_the_log_of_cospark_worker_have_their_offset(zone: str) -> None:
    logs = "from airflow_provider.cli.shared.terminal import *; log_to_terminal(); logging.warning('x')"
    env = {**os.environ, "TZ": zone, "PYTHONPATH": str(Path(__file__).parents[5])}
    told = subprocess.run([sys.executable, "-c", logs], capture_output=True, text=True, check=True, env=env).stderr
    date, hour, *rest = told.split()
    assert rest == ["WARNING", "x"]
    assert (len(date), hour[12:]) == (10, {"UTC": "+00:00", "Asia/Tokyo": "+09:00"}[zone])
