"""The processes that play histories end with the one that has started them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
from waiting import DEADLINE_S

_TESTS = Path(__file__).parents[1]


def test_no_process_is_left_when_the_run_is_killed() -> None:
    command = (sys.executable, "-m", "simulation.run", "--plan", "calm", "--seeds", "1000000")
    with subprocess.Popen(command, cwd=_TESTS, stderr=subprocess.PIPE) as run:
        assert run.stderr is not None
        assert run.stderr.read(1)  # it plays
        crew = psutil.Process(run.pid).children(recursive=True)
        run.kill()
    assert crew
    _, left = psutil.wait_procs(crew, timeout=DEADLINE_S)
    assert left == []
