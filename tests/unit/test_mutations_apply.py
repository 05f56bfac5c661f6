"""Who changes code that a mutation of the simulation changes sees it here, in no time."""

from __future__ import annotations

import pytest
from simulation.mutant import mistaken
from simulation.mutation import Mutation
from simulation.mutations import MUTATIONS


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_what_a_mutation_replaces_stands_in_the_code_once(mutation: Mutation) -> None:
    path, source = mistaken(mutation)
    assert source != path.read_text()
    compile(source, path, "exec")
