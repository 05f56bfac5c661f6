"""Our assignor against that of Java Kafka Connect, and its cost with up to a million tasks.

Both sides compute the same rounds on the same group, each in a fresh process. Measured are the first call, and the
median of the later half, when Java has compiled its code. A *full* round assigns everything, a *steady* one has nothing
to do, and in a *join* a worker without tasks has joined. Jobs have a hundred tasks, and workers about as many.

Two things are timed: the assignor alone, when what is owned has been decoded; and all that a leader does from the
members' bytes to the bytes of their assignments (ours also makes the round's record). The leader has led the round
before, in Connect's protocol and in versions 3 and 4. Java does not have these, so they are compared with Java in
version 2.
The time of a new leader is printed separately. One thing differs: Java's assignor computes the set of what is
configured itself, ours gets it.

``docs/architecture.md``, "What a round costs", explains what limits our side.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.connect import compiled

_ROOT: Final = Path(__file__).parent.parent
_OURS: Final = (sys.executable, "-m", "benchmarks.rounds")
_KINDS: Final = ("full", "steady", "join")
_TASKS_OF_JOB: Final = 100
_COLUMNS: Final = {
    "first": "first call",
    "warm": "warm",
    "lead": "from bytes to bytes",
    "v3": "the same, ours v3",
    "v4": "the same, ours v4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A group, and how often each side is called for it.

    :param leads: how often our leader is called; Java's is part of each call
    """

    workers: int
    jobs: int
    java: int
    ours: int
    leads: int

    def __str__(self) -> str:
        return f"{self.workers:,} workers x {self.jobs * _TASKS_OF_JOB:,} tasks"


_SIZES: Final = (
    Size(workers=100, jobs=100, java=200, ours=40, leads=10),
    Size(workers=1_000, jobs=1_000, java=20, ours=6, leads=3),
)
_LARGEST: Final = Size(workers=10_000, jobs=10_000, java=0, ours=1, leads=0)


def run(folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures: milliseconds, and ratios of ours to Java's."""
    java = compiled("Rounds", folder / "classes")
    heads = "".join(f"{head:>24}" for head in _COLUMNS.values())
    print(f"{'ms: Java, ours, ratio':>38}{heads}", flush=True)
    cells = []
    for size in _SIZES:
        for kind in _KINDS:
            cell = _compare(java, size, kind)
            print(
                f"{f'{size} {kind}':>38}" + "".join(_columns(cell, what) for what in _COLUMNS),
                flush=True,
            )
            cells.append(cell)
    worst = max(cell["warm_ratio"] for cell in cells)
    growth = {kind: _growth(kind) for kind in ("full", "join")}
    print(f"\nours / warm Java, the worst of six: {worst:.2f} (goal: at most 1)")
    print(f"a task of {_LARGEST} / one of {_SIZES[0]}: {', '.join(f'{kind} {x:.1f}' for kind, x in growth.items())}")
    for cell in cells:
        new = (
            f"{cell['new_leader']:.0f} ms, {cell['v3_new_leader']:.0f} in version 3,"
            f" {cell['v4_new_leader']:.0f} in version 4"
        )
        print(f"a new leader of {cell['group']}, {cell['round']}: {new}")
    for cell in cells:
        if cell["round"] == "full":
            ms = f"{cell['record_ms']:.0f} ms to write both of them, {cell['read_ms']:.0f} ms to read one"
            print(f"the records of {cell['group']}: {ms}, {cell['record_bytes'] / 1e6:.2f} MB each")
    return {"cells": cells, "worst_warm_ratio": worst, "cost_of_a_task_in_the_largest_group": growth}


def _compare(java: Sequence[str], size: Size, kind: str) -> dict[str, Any]:
    theirs = _measured(java, size, kind, size.java)
    ours = _measured(_OURS, size, kind, size.ours, size.leads)
    if (theirs["started"], theirs["stopped"]) != (ours["started"], ours["stopped"]):
        raise RuntimeError(f"{size}, {kind}: Java and ours decide differently: {theirs}, {ours}")
    cell = {
        "group": str(size),
        "round": kind,
        "first_java": theirs["assign_ms"][0],
        "first_ours": ours["assign_ms"][0],
        "warm_java": _warm(theirs["assign_ms"]),
        "warm_ours": _warm(ours["assign_ms"]),
        "lead_java": _warm(theirs["lead_ms"]),
        "lead_ours": _warm(ours["lead_ms"]),
        "v3_java": _warm(theirs["lead_ms"]),
        "v3_ours": _warm(ours["extensible_ms"]),
        "v4_java": _warm(theirs["lead_ms"]),
        "v4_ours": _warm(ours["compressed_ms"]),
        "new_leader": _warm(ours["new_leader_ms"]),
        "v3_new_leader": _warm(ours["extensible_new_leader_ms"]),
        "v4_new_leader": _warm(ours["compressed_new_leader_ms"]),
        "record_ms": _warm(ours["record_ms"]),
        "read_ms": _warm(ours["read_ms"]),
        "record_bytes": ours["record_bytes"],
    }
    return cell | {
        f"{what}_ratio": cell[f"{what}_ours"] / cell[f"{what}_java"] for what in ("first", "warm", "lead", "v3", "v4")
    }


def _growth(kind: str) -> float:
    """The cost of a task in the largest group, divided by that in the smallest."""
    small, large = (
        _warm(_measured(_OURS, size, kind, size.ours, 0)["assign_ms"]) / size.jobs for size in (_SIZES[0], _LARGEST)
    )
    return large / small


def _measured(command: Sequence[str], size: Size, kind: str, *calls: int) -> dict[str, Any]:
    arguments = (size.workers, size.jobs, _TASKS_OF_JOB, kind, *calls)
    done = subprocess.run(
        [*command, *map(str, arguments)], cwd=_ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[-1]} {arguments}: status {done.returncode}\n{done.stderr}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _warm(times: Sequence[float]) -> float:
    return statistics.median(times[len(times) // 2 :])


def _columns(cell: dict[str, Any], what: str) -> str:
    return f"{cell[f'{what}_java']:>9.1f}{cell[f'{what}_ours']:>8.1f}{cell[f'{what}_ratio']:>7.2f}"
