"""What is drawn from the commit: each one plays other histories, and whoever runs its tests again plays the same."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterable, Iterator

import pytest
from _pytest.mark import ParameterSet
from simulation.long_run import commit


def fresh(count: int) -> range:
    """Seeds drawn from the commit: every run of a commit's tests has the same ones."""
    try:
        first = int(commit()[:10], 16)
    except ValueError:
        first = secrets.randbelow(10**12)
    return range(first, first + count)


def one_in(share: int, names: Iterable[str]) -> Iterator[ParameterSet]:
    """Parameters of a test, of which each run takes one in ``share``; ``make thorough`` takes the others."""
    for number, name in enumerate(names, zlib.crc32(commit().encode())):
        yield pytest.param(name, id=name, marks=pytest.mark.thorough if number % share else ())
