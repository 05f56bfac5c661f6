"""A deliberate mistake in the product, and what notices it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One mistake.

    :param module: the module with the mistake
    :param edits: pairs of a text that is in the module exactly once, and its replacement
    :param plan: the histories that notice it; empty if a unit test does
    :param broken: the invariants of which one must fail
    :param seed: of the first history, from which one that notices it is found soon
    :param unit_test: the test that fails
    """

    name: str
    module: str
    edits: tuple[tuple[str, str], ...]
    plan: str = ""
    broken: tuple[str, ...] = ()
    seed: int = 0
    unit_test: str = ""
