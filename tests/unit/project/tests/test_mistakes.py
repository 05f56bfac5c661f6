"""The simulation's deliberate mistakes fit the code as it stands: known in a second, not after minutes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from simulation.mutation import Mutation
from simulation.mutations import MUTATIONS


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_it_can_be_made(mutation: Mutation) -> None:
    spec = importlib.util.find_spec(mutation.module)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    for before, _ in mutation.edits:
        assert source.count(before) == 1, f"{mutation.module} has it {source.count(before)} times:\n{before}"
