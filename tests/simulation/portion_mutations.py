"""Mistakes that somebody could make in shares in proportion to slots."""

from __future__ import annotations

from simulation.mutation import Mutation

_SPREAD = "the_spread_is_at_most_one"
_SURPLUS = "only_the_surplus_moves"
_REST = "everything_converges"
_ASKED = "no_leader_asks_for_the_same_again_and_again"
_WITH_STATE = "stateful_tasks_are_shared_out_by_slots_too"

_STREAMS_AND_BATCH = "tests/unit/assignment/balancing/test_streams_and_batch.py"

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
        edits=(("        if self._in_turn:\n", "        if True:\n"),),
        plan="unequal-calm",
        broken=(_SPREAD, _REST, _SURPLUS),
    ),
    Mutation(
        name="lets the largest remainders have nothing more",
        module="airflow_provider.assignment.balancing.balance",
        edits=(("more - (position < may_have.extras)", "more"),),
        unit_test="tests/unit/assignment/balancing/test_portions.py::test_nobody_gives_up_a_task_for_less_than_a_whole_one",
    ),
    Mutation(
        name="lets streams wait behind batch tasks while a slot is free elsewhere",
        module="airflow_provider.assignment.balancing.pools",
        edits=(("max(0, slots[worker] - busy[worker])", "max(0, slots[worker])"),),
        unit_test=f"{_STREAMS_AND_BATCH}::test_a_stream_that_waits_behind_batch_tasks_moves_to_a_free_slot",
    ),
    Mutation(
        name="gives to batch tasks the slots that streams get in the next round",
        module="airflow_provider.assignment.balancing.balance",
        edits=(("        if not number:\n            return loads\n", "        if True:\n            return loads\n"),),
        unit_test=f"{_STREAMS_AND_BATCH}::test_batch_tasks_leave_the_slots_to_streams_that_come_in_the_next_round",
    ),
    Mutation(
        name="counts each worker the same where tasks have state",
        module="airflow_provider.assignment.learners.stateful",
        edits=(("portions(total, staying, round.costs.slots)", "portions(total, staying)"),),
        plan="unequal-learners",
        broken=(_WITH_STATE, _SPREAD, _REST, _ASKED),
    ),
)
