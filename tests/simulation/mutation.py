"""A mistake that somebody could make, and what notices it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One mistake.

    :param module: the module in which it is made
    :param edits: pairs of a text that stands in it once, and of what stands there instead
    :param plan: the histories that notice it; empty: a unit test does
    :param broken: the invariants one of which must be what fails
    :param seed: of the first history that is tried: one that notices it is found sooner from here
    :param unit_test: the test that fails
    """

    name: str
    module: str
    edits: tuple[tuple[str, str], ...]
    plan: str = ""
    broken: tuple[str, ...] = ()
    seed: int = 0
    unit_test: str = ""
