"""Mistakes that somebody could make in shares in proportion to slots."""

from __future__ import annotations

from simulation.mutation import Mutation

_SPREAD = "the_spread_is_at_most_one"
_SURPLUS = "only_the_surplus_moves"
_REST = "everything_converges"

PORTION_MUTATIONS = (
    Mutation(
        name="counts each worker the same, whatever its slots are",
        module="airflow_provider.assignment.balancing.portions",
        edits=(
            ("    known = uneven(workers, slots)\n    together", "    known: dict[WorkerId, int] = {}\n    together"),
        ),
        plan="unequal-calm",
        broken=(_SPREAD, _REST, _SURPLUS),
    ),
    Mutation(
        name="gives what is free to whoever has the least, whatever its slots are",
        module="airflow_provider.assignment.balancing.balance",
        edits=(("        if self._portions.equal and self.size == 1:\n", "        if True:\n"),),
        plan="unequal-calm",
        broken=(_SPREAD, _REST, _SURPLUS),
    ),
    Mutation(
        name="lets the largest remainders have nothing more",
        module="airflow_provider.assignment.balancing.balance",
        edits=(("more - (position < may_have.extras)", "more"),),
        unit_test="tests/unit/assignment/balancing/test_portions.py::test_nobody_gives_up_a_task_for_less_than_a_whole_one",
    ),
)
