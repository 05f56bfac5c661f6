"""When a group has come to rest."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from simulation.group import GroupState

from airflow_provider.group.classic.member.state import Phase

if TYPE_CHECKING:
    from simulation.process import Process
    from simulation.world import World


def is_settled(world: World) -> bool:
    """See :attr:`World.settled <simulation.world.World.settled>`."""
    members = world.members
    if world.coordinator.state is not GroupState.STABLE:
        return not members and not world.coordinator.members and not world.configured
    if len(members) != len(world.coordinator.members):
        return False
    states = [member.state for member in members]
    if any(state.phase is not Phase.STABLE or state.stopping or state.rejoin_at for state in states):
        return False
    if not all(member.tasks.at_work for member in members) or not _slots_are_filled(members):
        return False
    if any(member.asked.wish is not None or member.state.lessons.learning for member in members):
        return False
    held = [task for member in members for task in member.tasks.held]
    return len(held) == len(set(held)) and set(held) == world.configured


def _slots_are_filled(members: Sequence[Process]) -> bool:
    """Where there are enough tasks for all slots, no worker has a free one; where workers differ, none has one while a
    task waits elsewhere. Where tasks take several slots, no worker has enough free ones for a task that waits
    elsewhere. But tasks with state are spread evenly, whatever slots are free, and nothing that runs stops for a free
    one, so a task with state may have to wait. And where tasks differ in cost, one that will end in time waits where it
    is.
    """
    world = members[0].world
    if world.status.given_up:
        return True
    taken = [[member.tasks.slots_of(task) for task in member.tasks.held if not task.is_planner] for member in members]
    all_slots = [member.slots for member in members]
    if all(each == 1 for of_worker in taken for each in of_worker) and len(set(all_slots)) == 1:
        shares = list(map(len, taken))
        filled = sum(shares) // len(shares) < all_slots[0] or min(shares) >= all_slots[0]
        stateful = world.jobs.newest.stateful if world.coordinator.learns else ()
        return filled or (bool(stateful) and not _can_fill_a_slot(members, stateful))
    if world.jobs.newest.stateful or world.jobs.weighed:
        return True
    free = max(slots - sum(of_worker) for slots, of_worker in zip(all_slots, taken, strict=True))
    return not any(wants <= free for member in members for wants in member.tasks.waiting_for_slots)


def _can_fill_a_slot(members: Sequence[Process], stateful: Container[str]) -> bool:
    """Whether a task that waits can go to a worker with a free slot and at least two tasks fewer. If it has state, that
    one must have fewer of these, too.

    :param stateful: the jobs whose tasks have state
    """
    held = [[task for task in member.tasks.held if not task.is_planner] for member in members]
    numbers = [(len(tasks), sum(task.job in stateful for task in tasks)) for tasks in held]
    places = [has for has, member in zip(numbers, members, strict=True) if has[0] < member.slots]
    return any(
        place + 1 < number and (task.job not in stateful or place_with_state < with_state)
        for member, tasks, (number, with_state) in zip(members, held, numbers, strict=True)
        for task in tasks
        if task not in member.running
        for place, place_with_state in places
    )
