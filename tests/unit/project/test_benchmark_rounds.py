"""The rounds that are measured against Java's are rounds of the product, and the right ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "started", "stopped"), [("full", 24, 0), ("steady", 0, 0), ("join", 0, 6)])
def test_each_kind_of_round_does_what_it_is_named_for(kind: str, started: int, stopped: int) -> None:
    """Three workers, two jobs of twelve tasks; each is called twice."""
    arguments = ("3", "2", "12", kind, "2", "2")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.rounds", *arguments], cwd=ROOT, capture_output=True, check=True, timeout=60
    )
    figures = json.loads(done.stdout)
    assert (figures["started"], figures["stopped"]) == (started, stopped)
    assert len(figures["assign_ms"]) == len(figures["lead_ms"]) == len(figures["record_ms"]) == 2
