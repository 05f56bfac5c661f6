"""Checks all rules for each round, and for a group at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulation import invariants, learner_invariants, rest_invariants
from simulation.rounds import Round

from airflow_provider.values.model import NO_TASKS, TaskId

if TYPE_CHECKING:
    from simulation.world import World

SLACK_MS: Final = 1
"""The time between the leader's reading of the clock and the coordinator's."""


class Checks:
    """The rounds of a world.

    :ivar rounds: the completed ones
    """

    def __init__(self, world: World) -> None:
        self.rounds: list[Round] = []
        self._world = world
        self._waits_until: dict[TaskId, int] = {}

    def take(self, now: Round) -> None:
        """A round was completed."""
        world, before = self._world, self.rounds[-1] if self.rounds else None
        self.rounds.append(now)
        skew_ms = 2 * world.wall_skew_ms + SLACK_MS
        known = self._waits_until if now.follows(before) else {}
        self._waits_until = {task: known.get(task) or self._latest(now, task) for task in now.waiting}
        invariants.each_round_has_an_epoch_of_its_own(before, now)
        invariants.no_leader_asks_for_the_same_again_and_again(before, now)
        invariants.nothing_is_assigned_and_revoked_in_one_round(now)
        invariants.a_failed_task_stays_with_its_worker(now)
        invariants.the_target_is_complete_and_without_duplicates(now)
        invariants.a_task_is_tried_again_without_a_round(now, world.trials.alone)
        invariants.nothing_is_revoked_for_balance_while_a_delay_runs(now)
        invariants.only_the_surplus_moves(now)
        invariants.nothing_that_runs_moves_for_its_cost(now)
        invariants.lost_tasks_wait_at_most_the_delay(now, self._waits_until, skew_ms)
        invariants.the_deadline_survives_leaders(before, now, skew_ms)
        invariants.nobody_waits_for_a_worker_that_never_returns(now)
        if world.named:
            invariants.a_returning_worker_has_its_own_tasks(now)
            invariants.a_replanned_task_stays_put(now)
        learner_invariants.check_round(before, now, world.settings.limits.longest_ms)

    def at_rest(self) -> None:
        """In a settled group, a while after its last round."""
        world = self._world
        running = {task: process.worker for process in world.members for task in process.running}
        invariants.the_status_topic_tells_what_runs(world.status.tasks, running)
        if not world.status.given_up and not world.trials.are_in_place:
            by_cost = self.rounds[-1].by_cost if self.rounds else NO_TASKS
            shares = {process.name: process.tasks.held - by_cost for process in world.members}
            slots = {process.name: process.slots for process in world.members}
            full = {process.name for process in world.members if len(process.tasks.held & by_cost) >= process.slots}
            with_state = world.jobs.newest.stateful if world.coordinator.learns else ()
            rest_invariants.the_spread_is_at_most_one(shares, slots, with_state, full)
        learner_invariants.check_at_rest(world)

    def _latest(self, now: Round, task: TaskId) -> int:
        """The latest time (wall clock) until which a task that is missing in this round may wait."""
        world = self._world
        longest_ms = world.policy.max_delay_ms
        at_most_ms = now.at_most_ms(now.owner_of(task))
        if at_most_ms is not None:
            longest_ms = min(at_most_ms, longest_ms)
        return world.wall + longest_ms + world.wall_skew_ms
