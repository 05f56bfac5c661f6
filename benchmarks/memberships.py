"""How many deferred workers one process can hold, and what they cost compared with bare heartbeats.

On a real broker, each time in a process of its own: the product's triggers (:mod:`benchmarks.triggers`), and as many
members of plain aiokafka that only heartbeat (:mod:`benchmarks.bare`). 1,000 in 20 groups, and 1,000 in one group, with
sessions of 10 s and heartbeats every 3 s. Then one more worker joins. If asked for, also 5,000 and 10,000, which join
in waves.

The broker runs on the same machine; its processor time is printed, too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from airflow_provider.servers.local_broker import LocalBroker

_ROOT: Final = Path(__file__).parent.parent
_MINUTES: Final = 0.5
_START_S: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """How many members there are in each of how many groups.

    :param late_ms: the goal for the worst lateness of the event loop; None: none
    :param cpu: the goal for the share of a core in the steady state
    :param at_once: how many join at the same time; the next ones join when these have
    """

    name: str
    groups: int
    members: int
    late_ms: float | None
    cpu: float
    at_once: int = 1_000


CROWDS: Final = (
    Crowd(name="1,000 in 20 groups", groups=20, members=50, late_ms=100, cpu=0.1),
    Crowd(name="1,000 in one group", groups=1, members=1_000, late_ms=100, cpu=0.1),
    Crowd(name="5,000 in 50 groups", groups=50, members=100, late_ms=None, cpu=0.5),
    Crowd(name="10,000 in 100 groups", groups=100, members=100, late_ms=None, cpu=1.0, at_once=200),
)
_USUAL: Final = CROWDS[:2]
"""The others need an idle machine, and some minutes each."""


def run(folder: Path, *, minutes: float = _MINUTES, crowds: Iterable[Crowd] = _USUAL) -> dict[str, Any]:
    """Measure, print, and return the figures.

    :param minutes: how long to measure the steady state
    """
    figures = {}
    for crowd in crowds:
        ours = _measured("benchmarks.triggers", crowd, minutes, folder, "--at-once", crowd.at_once)
        bare = _measured("benchmarks.bare", crowd, minutes, folder)
        figures[crowd.name] = {"triggers": ours, "bare": bare}
        _show(crowd, ours, bare)
    return figures


def _measured(module: str, crowd: Crowd, minutes: float, folder: Path, *more: object) -> dict[str, Any]:
    seconds = minutes * 60
    with LocalBroker() as broker, (folder / f"{module}.log").open("a") as log:
        assert broker.pid is not None
        size = ("--groups", crowd.groups, "--members", crowd.members, "--seconds", seconds)
        done = subprocess.run(
            [sys.executable, "-m", module, broker.bootstrap_servers, *map(str, (*size, *more))],
            cwd=_ROOT,
            check=True,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=seconds + _START_S,
        )
        process = psutil.Process(broker.pid)
        used = process.cpu_times()
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return {**figures, "broker_cpu_s": used.user + used.system, "broker_mb": process.memory_info().rss / 2**20}


def _show(crowd: Crowd, ours: Mapping[str, Any], bare: Mapping[str, Any]) -> None:
    steady, peer = ours["steady"], bare["steady"]
    own_mb = steady["rss_mb"] - ours["base_mb"]
    goal = "" if crowd.late_ms is None else f" (goal: {crowd.late_ms:.0f} ms)"
    late = ", ".join(
        f"{words} {ours[part]['late_ms']:.0f} ms, of which {ours[part]['busy_ms']:.0f} ms at work"
        + (f" [{bare[part]['late_ms']:.0f}, {bare[part]['busy_ms']:.0f}]" if part in bare else "")
        for part, words in (("joining", "while they join"), ("steady", "then"), ("another", "while one more joins"))
    )
    print(
        f"\n{crowd.name} [bare aiokafka], {steady['seconds']:.0f} s:\n"
        f"  all joined after {ours['joined_s']:.1f} s [{bare['joined_s']:.1f}];"
        f" one more after {ours['another_s']:.1f} s\n"
        f"  sessions lost: {ours['sessions_lost']} [{bare['sessions_lost']}] (goal: 0)\n"
        f"  share of a core: {steady['cpu']:.1%} [{peer['cpu']:.1%}], {steady['cpu'] / peer['cpu']:.1f} times"
        f" (goal: under {crowd.cpu:.0%})\n"
        f"  the loop was late by at most: {late}{goal}\n"
        f"  memory: {steady['rss_mb']:.0f} MB, {own_mb:.0f} of them beyond Python with Airflow"
        f" [{peer['rss_mb']:.0f} with Python]; {ours['threads']} threads\n"
        f"  the broker: {ours['broker_cpu_s']:.0f} s of a processor in all [{bare['broker_cpu_s']:.0f}]",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memberships", description=__doc__)
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="to look at the steady state")
    parser.add_argument(
        "--only",
        type=int,
        nargs="*",
        default=range(len(_USUAL)),
        metavar="N",
        help=", ".join(f"{n}: {crowd.name}" for n, crowd in enumerate(CROWDS)),
    )
    parser.add_argument("--output", type=Path, default=Path("build/bench"), metavar="DIR")
    args = parser.parse_args()
    folder = args.output.absolute() / "memberships"
    folder.mkdir(parents=True, exist_ok=True)
    figures = run(folder, minutes=args.minutes, crowds=[CROWDS[number] for number in args.only])
    (folder.parent / "memberships.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
