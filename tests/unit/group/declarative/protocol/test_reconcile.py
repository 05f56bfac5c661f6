"""One step of a member of a declarative group towards its target: what it keeps, stops, gets, and its epoch."""

from __future__ import annotations

import pytest

from airflow_provider.group.declarative.protocol.model import (
    AssignmentEpoch,
    AssignorMetadata,
    CurrentAssignment,
    MemberEpoch,
    MemberState,
    MemberTarget,
)
from airflow_provider.group.declarative.protocol.reconcile import reconcile
from airflow_provider.values.model import NO_TASKS, TaskId, Tasks

STABLE, UNREVOKED, UNRELEASED = MemberState


def tasks(*indexes: int) -> Tasks:
    return frozenset(TaskId("a", index) for index in indexes)


def member(
    epoch: int,
    state: MemberState = STABLE,
    assigned: Tasks = NO_TASKS,
    revoking: Tasks = NO_TASKS,
    *,
    assigned_in: int | None = None,
) -> CurrentAssignment:
    """:param assigned_in: the epoch of the target that its tasks are of; None: the one that it has reached"""
    return CurrentAssignment(
        epoch=MemberEpoch(epoch),
        state=state,
        assigned=assigned,
        revoking=revoking,
        assignment_epoch=AssignmentEpoch(epoch if assigned_in is None else assigned_in),
    )


def step(
    current: CurrentAssignment,
    target: Tasks,
    epoch: int = 7,
    *,
    owned: Tasks | None = None,
    held_by_others: Tasks = NO_TASKS,
) -> CurrentAssignment:
    return reconcile(
        current, MemberTarget(tasks=target), AssignmentEpoch(epoch), owned=owned, held_by_others=held_by_others
    )


class TestStable:
    def test_at_its_target_it_stays_what_it_is(self) -> None:
        current = member(7, assigned=tasks(0))
        assert step(current, tasks(0), owned=tasks(0)) is current

    def test_a_newcomer_gets_what_is_free_and_is_at_its_target(self) -> None:
        assert step(member(0), tasks(0, 1), owned=NO_TASKS) == member(7, assigned=tasks(0, 1))

    def test_a_newer_target_with_the_same_tasks_is_a_newer_epoch(self) -> None:
        assert step(member(6, assigned=tasks(0)), tasks(0)) == member(7, assigned=tasks(0))

    def test_it_keeps_what_it_has_and_gets_the_rest(self) -> None:
        assert step(member(6, assigned=tasks(0)), tasks(0, 1)) == member(7, assigned=tasks(0, 1))

    def test_what_is_not_in_its_target_it_stops_first_and_gets_nothing(self) -> None:
        following = step(member(6, assigned=tasks(0, 1)), tasks(1, 2), owned=tasks(0, 1))
        assert following == member(6, UNREVOKED, assigned=tasks(1), revoking=tasks(0))

    def test_what_it_does_not_own_needs_no_stop(self) -> None:
        following = step(member(6, assigned=tasks(0, 1)), tasks(1, 2), owned=tasks(1))
        assert following == member(7, assigned=tasks(1, 2))

    def test_what_others_hold_it_waits_for_in_its_old_epoch(self) -> None:
        following = step(member(6, assigned=tasks(0)), tasks(0, 1, 2), held_by_others=tasks(2, 5))
        assert following == member(6, UNRELEASED, assigned=tasks(0, 1), assigned_in=7)


class TestUnrevoked:
    CURRENT = member(6, UNREVOKED, assigned=tasks(1), revoking=tasks(0))

    @pytest.mark.parametrize("owned", [None, tasks(0), tasks(0, 1)], ids=["not said", "what is revoked", "all"])
    def test_without_an_acknowledgement_nothing_changes(self, owned: Tasks | None) -> None:
        assert step(self.CURRENT, tasks(1, 2), owned=owned) is self.CURRENT

    def test_a_part_is_no_acknowledgement(self) -> None:
        current = member(6, UNREVOKED, revoking=tasks(0, 1))
        assert step(current, NO_TASKS, owned=tasks(1)) is current

    def test_the_acknowledgement_gives_it_the_rest(self) -> None:
        assert step(self.CURRENT, tasks(1, 2), owned=tasks(1)) == member(7, assigned=tasks(1, 2))

    def test_what_it_is_to_have_after_all_it_stops_before_it_gets_it_again(self) -> None:
        assert step(self.CURRENT, tasks(0, 1), owned=tasks(0, 1)) is self.CURRENT
        assert step(self.CURRENT, tasks(0, 1), owned=tasks(1)) == member(7, assigned=tasks(0, 1))

    def test_a_target_that_has_come_meanwhile_may_have_it_stop_more(self) -> None:
        following = step(self.CURRENT, tasks(2), owned=tasks(1))
        assert following == member(6, UNREVOKED, revoking=tasks(1))

    def test_it_may_have_to_wait_next(self) -> None:
        following = step(self.CURRENT, tasks(1, 2), owned=tasks(1), held_by_others=tasks(2))
        assert following == member(6, UNRELEASED, assigned=tasks(1), assigned_in=7)


class TestUnreleased:
    CURRENT = member(6, UNRELEASED, assigned=tasks(0), assigned_in=7)

    def test_while_nothing_is_released_it_stays_what_it_is(self) -> None:
        assert step(self.CURRENT, tasks(0, 1, 2), held_by_others=tasks(1, 2)) is self.CURRENT

    def test_it_gets_what_is_released_bit_by_bit(self) -> None:
        following = step(self.CURRENT, tasks(0, 1, 2), held_by_others=tasks(2))
        assert following == member(6, UNRELEASED, assigned=tasks(0, 1), assigned_in=7)
        assert step(following, tasks(0, 1, 2)) == member(7, assigned=tasks(0, 1, 2))

    def test_a_newer_target_may_have_it_stop_something(self) -> None:
        following = step(self.CURRENT, tasks(1), 8, owned=tasks(0), held_by_others=tasks(1))
        assert following == member(6, UNREVOKED, revoking=tasks(0), assigned_in=7)

    def test_what_it_keeps_of_a_newer_target_is_of_the_one_that_it_was_assigned_from(self) -> None:
        has = member(6, UNRELEASED, assigned=tasks(0, 1), assigned_in=7)
        stops = step(has, tasks(1), 8, owned=tasks(0, 1))
        assert stops == member(6, UNREVOKED, assigned=tasks(1), revoking=tasks(0), assigned_in=7)
        assert step(stops, tasks(1), 9, owned=tasks(1)) == member(9, assigned=tasks(1))

    def test_a_newer_target_may_not_have_what_it_waits_for(self) -> None:
        assert step(self.CURRENT, tasks(0), held_by_others=tasks(1)) == member(7, assigned=tasks(0))


class TestMetadata:
    """What the assignor sends along goes with the tasks that it belongs to."""

    OLD, NEW = AssignorMetadata(data=b"old"), AssignorMetadata(data=b"new")
    TARGET = MemberTarget(tasks=tasks(1), metadata=NEW)
    CURRENT = CurrentAssignment(epoch=MemberEpoch(6), assigned=tasks(0), metadata=OLD)

    def test_to_stop_tasks_brings_none(self) -> None:
        stops = reconcile(self.CURRENT, self.TARGET, AssignmentEpoch(7), owned=tasks(0), held_by_others=())
        assert (stops.state, stops.metadata) == (UNREVOKED, self.OLD)

    def test_to_be_assigned_tasks_does(self) -> None:
        gets = reconcile(self.CURRENT, self.TARGET, AssignmentEpoch(7), owned=NO_TASKS, held_by_others=())
        assert (gets.state, gets.metadata) == (STABLE, self.NEW)

    def test_new_metadata_alone_are_a_change(self) -> None:
        waits = CurrentAssignment(epoch=MemberEpoch(6), state=UNRELEASED, metadata=self.OLD)
        following = reconcile(waits, self.TARGET, AssignmentEpoch(7), owned=None, held_by_others=tasks(1))
        assert (following.state, following.metadata) == (UNRELEASED, self.NEW)
