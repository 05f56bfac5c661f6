"""Mistakes that somebody could make in what a member does with a hint at a rebalance."""

from __future__ import annotations

from simulation.mutation import Mutation

_MEMBERSHIP = "airflow_provider.group.classic.member"
_TESTS = "tests/unit/group/classic/member/test_member_hints.py"

HINT_MUTATIONS = (
    Mutation(
        name="heartbeats at every hint",
        module=f"{_MEMBERSHIP}.requests",
        edits=(("at = max(self.now + spread, state.heartbeat_sent_at + step)", "at = self.now"),),
        unit_test=f"{_TESTS}::test_a_flood_of_hints_brings_a_heartbeat_forward_every_100_ms_at_most",
    ),
    Mutation(
        name="asks a coordinator that does not answer again for each hint",
        module=f"{_MEMBERSHIP}.requests",
        edits=(("        if state.awaits_heartbeat:\n", "        if False:\n"),),
        unit_test=f"{_TESTS}::test_a_coordinator_that_does_not_answer_is_asked_no_more_often_for_hints",
    ),
    Mutation(
        name="forgets a hint that comes during a heartbeat",
        module=f"{_MEMBERSHIP}.heartbeats",
        edits=(("        if state.hinted:\n", "        if False:\n"),),
        unit_test=f"{_TESTS}::test_a_hint_during_an_unanswered_heartbeat_is_heeded_after_the_answer",
    ),
    Mutation(
        name="takes a hint for the truth",
        module=f"{_MEMBERSHIP}.heartbeats",
        edits=(("        member.heartbeat_soon()\n", '        member.set(rejoin_reason="a hint")\n'),),
        unit_test=f"{_TESTS}::test_who_reads_a_hint_sends_its_heartbeat_at_once",
    ),
)
