"""``cospark`` in a process of its own: all tests that run side by side share the output of this one."""

from __future__ import annotations

import subprocess
import sys


def run_cospark(bootstrap_servers: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """:returns: with what it has written to both of its outputs as ``stdout``"""
    return subprocess.run(
        [sys.executable, "-m", "airflow_provider.cli.main", *arguments, "--bootstrap-servers", bootstrap_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
