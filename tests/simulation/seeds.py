"""Fresh seeds for each commit."""

from __future__ import annotations

import secrets

from simulation.long_run import commit


def fresh(count: int) -> range:
    """Seeds drawn from the commit: every run of a commit's tests has the same ones."""
    try:
        first = int(commit()[:10], 16)
    except ValueError:
        first = secrets.randbelow(10**12)
    return range(first, first + count)
