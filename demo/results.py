"""Checks the demo's results, writes them to files, and shows them as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.data import plain_totals, totals_of, written_flights
from demo.play import Observed
from demo.report import attempts_of, build, rounds_of
from demo.timeline import draw


def write_results(output: Path, observed: Observed) -> dict[str, Any]:
    """Check the group's results against a computation without Spark; write ``report.json`` and ``timeline.svg``.

    :return: the report; ``ok`` says whether all checks passed, ``checks`` has each of them
    """
    expected = plain_totals(output / "input")
    told = totals_of(list(observed.results))
    written = written_flights(output / "result")
    report = build(observed.events, observed.kills)
    checks = {
        "every month was done once by its output": len(observed.results) == 12 and written == expected.rows_out,
        "rows_in as computed plainly": told.rows_in == expected.rows_in,
        "rows_out as computed plainly": told.rows_out == expected.rows_out,
        "delay sums as computed plainly": told == expected,
        "nothing was stopped unnecessarily": report["stopped_unnecessarily"] == 0,
        "no task failed": not observed.errors,
        "the DAG runs succeeded": set(observed.runs.values()) == {"success"},
    }
    report = {
        "ok": all(checks.values()),
        "checks": checks,
        "rows_in": told.rows_in,
        "rows_out": told.rows_out,
        "expected": expected.to_json(),
        "rows_written": written,
        "dag_runs": observed.runs,
        "errors": list(observed.errors),
        **report,
    }
    (output / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    picture = draw(
        "The flights of 2013, a task a month: who ran what when",
        attempts_of(observed.events, observed.kills),
        rounds_of(observed.events),
        observed.kills,
        end_ms=observed.ended_ms,
    )
    (output / "timeline.svg").write_text(picture)
    return report


def print_results(report: dict[str, Any], output: Path, *, seconds: float) -> None:
    console = Console()
    epochs = Table("epoch", "why", "tasks after it", "moves", title="Rebalances")
    for epoch in report["epochs"]:
        epochs.add_row(
            str(epoch["epoch"]),
            epoch["reason"],
            ", ".join(f"{worker} {len(tasks)}" for worker, tasks in sorted(epoch["members"].items())),
            _moves(epoch["moves"]),
        )
    console.print(epochs)
    tasks = Table("task", "attempts", title="Tasks")
    for task, attempts in report["tasks"].items():
        tasks.add_row(task, " → ".join(f"{attempt['worker']}: {attempt['end']}" for attempt in attempts))
    console.print(tasks)
    for check, holds in report["checks"].items():
        console.print(f"  {'[green]yes[/]' if holds else '[red]NO [/]'}  {check}")
    console.print(
        f"{report['rows_in']} rows in, {report['rows_out']} out; {report['moved']} tasks moved,"
        f" {report['lost']} lost with a killed worker, {report['stopped']} stopped because they moved,"
        f" {report['stopped_unnecessarily']} stopped unnecessarily; {seconds:.0f} s\n"
        f"{output / 'timeline.svg'}\n{output / 'report.json'}"
    )


def _moves(moves: list[dict[str, Any]]) -> str:
    counts: dict[tuple[str, str, str], int] = {}
    for move in moves:
        key = (move["from"] or "·", move["to"] or "·", move["why"])
        counts[key] = counts.get(key, 0) + 1
    return ", ".join(f"{count}x {source} → {target} ({why})" for (source, target, why), count in counts.items())
