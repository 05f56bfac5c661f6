"""A declarative group in words: the tables of the proposal's case studies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from airflow_provider.group.declarative.coordinator.group_state import GroupState
from airflow_provider.group.declarative.coordinator.settings import CONFIG_NAMES
from airflow_provider.group.declarative.protocol.model import CurrentAssignment
from airflow_provider.values.model import MemberId, TaskId, Tasks, tasks_to_json


def tables(group: GroupState, name: Callable[[TaskId], str] = str) -> str:
    """The members, and the target and present assignment of each, with the holders of tasks that it waits for.

    :param name: how to show a task
    """
    return "\n".join(
        (
            f"Group (epoch={group.epoch})",
            *_lines(sorted(group.members)),
            f"Target Assignment (epoch={group.target.epoch}{_error(group.target.error)})",
            *_lines(
                f"{one} - connectorsAndTasks={_names(target.tasks, name)}"
                for one, target in sorted(group.target.members.items(), key=_by_name)
            ),
            *(
                f"  delayed for {one} - connectorsAndTasks={_names(target.tasks, name)}"
                for one, target in sorted(group.target.delayed.items(), key=_by_name)
            ),
            "Member Assignment",
            *_lines(_member(group, one, current, name) for one, current in _current(group)),
        )
    )


def phase(group: GroupState) -> str:
    """The group's state, by KIP-848's names."""
    if not group.members:
        return "Empty"
    if group.target.epoch < group.epoch:
        return "Assigning"
    at_rest = not group.lingering and all(current.is_at(group.target.epoch) for _, current in _current(group))
    return "Stable" if at_rest else "Reconciling"


def to_json(group: GroupState) -> dict[str, Any]:
    """The content of :func:`tables`, as a JSON object."""
    return {
        "epoch": group.epoch,
        "assignment_epoch": group.target.epoch,
        "error": group.target.error,
        "configuration": _configured(group),
        "delayed": {one: tasks_to_json(target.tasks) for one, target in sorted(group.target.delayed.items())},
        "members": [
            {
                "member": one,
                "worker": member.instance_id if (member := group.members.get(one)) is not None else None,
                "removed": one in group.lingering,
                "epoch": current.epoch,
                "state": current.state.name.lower(),
                "target": tasks_to_json(group.target.of(one).tasks),
                "assigned": tasks_to_json(current.assigned),
                "revoking": tasks_to_json(current.revoking),
                "waits_for": [
                    {"task": [task.job, task.index], "holder": holder}
                    for task, holder in waiting_for(group, one).items()
                ],
            }
            for one, current in _current(group)
        ],
    }


def configuration_lines(group: GroupState) -> list[str]:
    """The group's settings, if any are not the defaults."""
    configured = _configured(group)
    return ["Configuration", *_lines(f"{name}={value}" for name, value in configured.items())] if configured else []


def _configured(group: GroupState) -> dict[str, int]:
    values = {name: getattr(group.configuration, attribute) for name, attribute in CONFIG_NAMES.items()}
    return {name: value for name, value in values.items() if value is not None}


def waiting_for(group: GroupState, member_id: MemberId) -> Mapping[TaskId, MemberId]:
    """The tasks of a member's target that others still hold, with their holders."""
    return {
        task: holder
        for task in sorted(group.target.of(member_id).tasks)
        if (holder := group.holders.get(task)) is not None and holder != member_id
    }


def _current(group: GroupState) -> list[tuple[MemberId, CurrentAssignment]]:
    """The current assignments of the members, and of removed ones that may still run something."""
    return [(one, group.current[one]) for one in sorted(group.members.keys() | group.lingering)]


def _member(group: GroupState, member_id: MemberId, current: CurrentAssignment, name: Callable[[TaskId], str]) -> str:
    if member_id in group.lingering:
        return f"{member_id} - removed, may still run {_names(current.held, name)}"
    line = f"{member_id} - epoch={current.epoch}, connectorsAndTasks={_names(current.assigned, name)}"
    if current.revoking:
        line += f", revoking={_names(current.revoking, name)}"
    if waits := waiting_for(group, member_id):
        line += f", waits for [{', '.join(f'{name(task)} of {holder}' for task, holder in waits.items())}]"
    return line


def _lines(entries: Iterable[str]) -> list[str]:
    return [f"  {entry}" for entry in entries] or ["  Empty"]


def _names(tasks: Tasks, name: Callable[[TaskId], str]) -> str:
    return f"[{', '.join(name(task) for task in sorted(tasks))}]"


def _error(error: int) -> str:
    return f", error={error}" if error else ""


def _by_name(entry: tuple[MemberId, object]) -> MemberId:
    return entry[0]
