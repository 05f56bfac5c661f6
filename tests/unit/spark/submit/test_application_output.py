"""What an application prints: in the log by its level, and the last of it in the error."""

from __future__ import annotations

import logging

import pytest

from airflow_provider.spark.attempts.failures import describe
from airflow_provider.spark.submit import output as output_module
from airflow_provider.spark.submit.output import ApplicationError, Output


def test_each_line_is_in_the_log_with_its_level_and_with_whose_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    output = Output("etl:0 daily")
    output.hear("26/01/01 00:00:00 WARN Utils: careful")
    output.hear("plain")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "etl:0 daily | Utils: careful"),
        ("INFO", "etl:0 daily | plain"),
    ]


def test_the_last_lines_are_kept_as_far_as_an_error_has_room() -> None:
    output = Output("etl:0 daily")
    assert output.last() == "(it printed nothing)"
    for number in range(100):
        output.hear(f"{number} " + "x" * 60)
    kept = output.last().splitlines()
    assert kept[-1].startswith("99 ")
    assert len(kept) > 10
    assert len(output.last()) <= 1_500


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "_BURST", 10_000)


@pytest.mark.usefixtures("little_room")
def test_a_flood_is_logged_in_part_and_it_is_said_how_much_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = 0.0
    output = Output("etl:0 daily", lambda: now)

    def flood() -> int:
        caplog.clear()
        for _ in range(1_000):
            output.hear("y")
        return sum(message.endswith("| y") for message in caplog.messages)

    logged = flood()
    assert 50 < logged < 200
    now += 3_600
    again = flood()
    assert again == logged
    assert caplog.messages[0] == f"etl:0 daily | ({1_000 - logged} more lines came too fast to be logged)"
    output.hear("the end")
    assert output.last().endswith("the end")
    caplog.clear()
    output.say_what_was_left_out()
    output.say_what_was_left_out()
    assert caplog.messages == [f"etl:0 daily | ({1_001 - logged} more lines came too fast to be logged)"]


@pytest.mark.usefixtures("little_room")
def test_what_is_not_logged_anyway_takes_no_room(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    output = Output("etl:0 daily", lambda: 0.0)
    for _ in range(1_000):
        output.hear("26/01/01 00:00:00 DEBUG Utils: y")
    output.hear("plain")
    assert caplog.messages == ["etl:0 daily | plain"]


@pytest.mark.parametrize(
    ("code", "end"), [(1, "exit code 1"), (143, "SIGTERM"), (137, "SIGKILL (was the machine"), (255, "exit code 255")]
)
def test_the_error_says_how_it_has_ended(code: int, end: str) -> None:
    assert f"the application daily has ended with {end}" in str(ApplicationError("daily", code, "last"))


def test_the_error_of_its_python_comes_first() -> None:
    lines = 'Traceback (most recent call last):\n  File "etl.py", line 1, in <module>\nValueError: no such day'
    assert describe(ApplicationError("daily", 1, lines)).startswith("ValueError: no such day\nby way of")
