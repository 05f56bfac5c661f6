"""``cospark reconcile``: explains an assignment, by what a coordinator does with a member and its target."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from airflow_provider.cli.offline.json_lines import (
    LineAnswer,
    UnreadableLineError,
    answer_lines,
    is_integer,
    object_field,
    object_of_line,
    required,
    shown,
    tasks_of,
)
from airflow_provider.cli.offline.lines import STDIN
from airflow_provider.group.declarative.protocol.model import (
    AssignmentEpoch,
    CurrentAssignment,
    MemberEpoch,
    MemberState,
    MemberTarget,
)
from airflow_provider.group.declarative.protocol.reconcile import reconcile
from airflow_provider.values.model import Tasks, tasks_to_json

_HIGHEST_EPOCH: Final = 2**31 - 1
"""An epoch is an int32 on the wire."""
_KEYS: Final = frozenset({"target_epoch", "target", "member", "owned", "held_by_others"})
_MEMBER_KEYS: Final = frozenset({"epoch", "state", "assigned", "revoking"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Move members of a declarative group (KIP-848) one step towards their targets. Each input line is one JSON"
        " object: target_epoch, target ([[job, index], ...]), member (epoch,"
        f" state ({', '.join(MemberState)}), assigned, revoking), owned (what its heartbeat says that it owns; null if"
        " it does not say) and held_by_others (what other members have or still have to stop). Each output line is the"
        " member after that step: epoch, state, assigned, revoking. A line that can't be read gives"
        ' {"error": "..."}, and the exit status is 1. Unknown keys are named on standard error.'
    )
    parser.add_argument("file", metavar="FILE", help=f"the members; {STDIN} is standard input")


def run(args: argparse.Namespace) -> int:
    """Reconcile the member in every line of ``args.file``, each before the next is read.

    :returns: 0 if every line could be read, 1 if not, 2 if the file can't be opened
    """

    def answer(line: bytes) -> LineAnswer:
        step = _step_of(line)
        return LineAnswer(step.taken(), step.ignored)

    return answer_lines("reconcile", args.file, answer)


class _Step(NamedTuple):
    """The content of a line, and its unknown keys."""

    current: CurrentAssignment
    target: Tasks
    target_epoch: AssignmentEpoch
    owned: Tasks | None
    held_by_others: Tasks
    ignored: frozenset[str]

    def taken(self) -> dict[str, Any]:
        """The member after this step."""
        following = reconcile(
            self.current,
            MemberTarget(tasks=self.target),
            self.target_epoch,
            owned=self.owned,
            held_by_others=self.held_by_others,
        )
        return {
            "epoch": following.epoch,
            "state": following.state.value,
            "assigned": tasks_to_json(following.assigned),
            "revoking": tasks_to_json(following.revoking),
        }


def _step_of(line: bytes) -> _Step:
    data = object_of_line(line)
    owned = required(data, "owned")
    member = object_field(data, "member")
    return _Step(
        current=_member(member),
        target=_tasks(data, "target"),
        target_epoch=AssignmentEpoch(_epoch(data, "target_epoch")),
        owned=None if owned is None else tasks_of(owned, "owned"),
        held_by_others=_tasks(data, "held_by_others"),
        ignored=frozenset(data.keys() - _KEYS) | {f"member.{key}" for key in member.keys() - _MEMBER_KEYS},
    )


def _member(data: Mapping[str, Any]) -> CurrentAssignment:
    try:
        return CurrentAssignment(
            epoch=MemberEpoch(_epoch(data, "epoch")),
            state=_state(required(data, "state")),
            assigned=_tasks(data, "assigned"),
            revoking=_tasks(data, "revoking"),
        )
    except UnreadableLineError as wrong:
        raise UnreadableLineError(f"member: {wrong}") from None


def _state(state: object) -> MemberState:
    try:
        return MemberState(state)
    except ValueError:
        raise UnreadableLineError(f"state must be one of {', '.join(MemberState)}, not {shown(state)}") from None


def _epoch(data: Mapping[str, Any], key: str) -> int:
    value = required(data, key)
    if not is_integer(value) or not 0 <= value <= _HIGHEST_EPOCH:
        raise UnreadableLineError(f"{key} must be an integer from 0 to {_HIGHEST_EPOCH}, not {shown(value)}")
    return int(value)


def _tasks(data: Mapping[str, Any], key: str) -> Tasks:
    return tasks_of(required(data, key), key)
