"""Mistakes that somebody could make in the epochs of rounds."""

from __future__ import annotations

from simulation.mutation import Mutation

_GROW = "epochs_only_grow"
_OWN_EPOCH = "each_round_has_an_epoch_of_its_own"
_HIGHER = "a_task_goes_to_another_worker_with_a_higher_epoch"

EPOCH_MUTATIONS = (
    Mutation(
        name="takes the coordinator's generation for an epoch",
        module="airflow_provider.state.rounds.classic",
        edits=(("    if last is None:\n        return Epoch(generation)\n", "    return Epoch(generation)\n"),),
        plan="wild",
        broken=(_OWN_EPOCH, _GROW, _HIGHER),
    ),
    Mutation(
        name="counts on from the last record though later ones were never written",
        module="airflow_provider.group.classic.leader.leader",
        edits=(("    return max(epoch, Epoch(call.spoken_epoch + 1))\n", "    return epoch\n"),),
        unit_test=(
            "tests/unit/group/classic/leader/test_leader.py"
            "::test_a_new_count_begins_above_the_epochs_of_rounds_whose_record_was_never_written"
        ),
    ),
    Mutation(
        name="leads without regard to the last round that it was in itself",
        module="airflow_provider.group.classic.member.joining",
        edits=(("                epoch=state.epoch,\n", ""),),
        unit_test=(
            "tests/simulation/test_forgotten_group.py"
            "::test_a_round_is_above_those_that_its_leader_was_in_though_no_record_tells"
        ),
    ),
    Mutation(
        name="leads a round of version 3 without regard to the rounds that the others were in",
        module="airflow_provider.group.classic.leader.extensible_round",
        edits=(("    return max([call.spoken_epoch, *believed])\n", "    return call.spoken_epoch\n"),),
        unit_test=(
            "tests/unit/group/classic/leader/test_leader_epochs.py"
            "::test_a_round_of_version_3_is_above_those_in_which_its_members_have_been"
        ),
    ),
)
