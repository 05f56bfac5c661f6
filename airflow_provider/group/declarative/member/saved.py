"""Saves a membership in a declarative group as JSON, so that it can continue in another process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider.group.declarative.member.settings import DeclarativeSettings
from airflow_provider.group.declarative.member.state import MembershipState, Phase
from airflow_provider.group.declarative.protocol.model import JOINING, MemberEpoch
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.values.model import (
    ConfigOffset,
    Epoch,
    LocalProtocolError,
    MemberId,
    tasks_from_json,
    tasks_to_json,
)
from airflow_provider.values.saved import SAVED_VERSION, check_saved, reading_saved


def save(state: MembershipState, *, now_ms: int, wall_ms: int) -> dict[str, Any]:
    """Save what another process needs to continue this membership.

    Not saved are what that process finds out itself (the jobs topic's offset, what its assignors say), the assignment
    that this member was about to compute, and revoked tasks that were told to stop: these end with this process.

    :param now_ms: this process's monotonic clock
    :param wall_ms: the wall clock at the same moment, by which the other process converts times
    :raises LocalProtocolError: the membership is ending or has ended, so it can't continue
    """
    if state.phase is Phase.LEAVING or state.phase.ended:
        raise LocalProtocolError(f"a membership that is {state.phase.value} cannot be handed over")
    in_group = state.phase is Phase.STABLE
    return {
        "v": SAVED_VERSION,
        "member_id": state.member_id,
        "epoch": state.epoch,
        "assignment_epoch": state.assignment_epoch,
        "assigned": tasks_to_json(state.assigned),
        "owned": tasks_to_json(state.owned & (state.assigned | state.held) if in_group else ()),
        "needed_offset": state.needed_offset,
        "predecessor": state.predecessor.value,
        "session_timeout_ms": state.session_timeout_ms,
        "heartbeat_interval_ms": state.heartbeat_interval_ms,
        "delay_over_ms": state.delay_over_ms,
        "delay_passed_ms": state.delay_passed_ms,
        "delay_in_ms": None if state.delay_over_at is None else state.delay_over_at - now_ms,
        "lease_ms": None if state.lease_until is None else state.lease_until - now_ms,
        "hold_ms": None if state.hold_until is None else state.hold_until - now_ms,
        "saved_at_ms": wall_ms,
    }


def resume(data: Mapping[str, Any], settings: DeclarativeSettings, *, now_ms: int, wall_ms: int) -> MembershipState:
    """The inverse of :func:`save`. The first event for the state is a :class:`~.events.Resumed`.

    :raises ValueError: the data were not made by :func:`save`
    """
    check_saved(data, "membership")
    with reading_saved("membership"):
        return _resume(data, settings, now_ms=now_ms, wall_ms=wall_ms)


def _resume(data: Mapping[str, Any], settings: DeclarativeSettings, *, now_ms: int, wall_ms: int) -> MembershipState:
    shift = now_ms - max(0, wall_ms - int(data["saved_at_ms"]))

    def at(key: str) -> int | None:
        return None if data[key] is None else int(data[key]) + shift

    owned = tasks_from_json(data["owned"])
    return MembershipState(
        settings=settings,
        member_id=MemberId(data["member_id"]),
        epoch=MemberEpoch(int(data["epoch"])),
        assignment_epoch=Epoch(int(data["assignment_epoch"])),
        assigned=tasks_from_json(data["assigned"]),
        owned=owned,
        held=owned,
        needed_offset=ConfigOffset(int(data["needed_offset"])),
        predecessor=Predecessor(data["predecessor"]),
        session_timeout_ms=int(data["session_timeout_ms"]),
        heartbeat_interval_ms=int(data["heartbeat_interval_ms"]),
        delay_over_ms=int(data["delay_over_ms"]),
        delay_passed_ms=int(data["delay_passed_ms"]),
        delay_over_at=at("delay_in_ms"),
        lease_until=at("lease_ms"),
        hold_until=at("hold_ms"),
    )


def taken_over(saved: Mapping[str, Any], member_id: MemberId) -> dict[str, Any]:
    """Change a saved membership for a process that can't know whether the former process still has it.

    It joins as another member under the same name, so that it takes the place of the former one, even if that is still
    alive, and gets its tasks. This is only allowed for a membership that runs nothing, as in a triggerer.

    :param saved: the result of :func:`save`
    :param member_id: a new member id
    """
    return {
        **saved,
        "member_id": member_id,
        "epoch": JOINING,
        "assigned": [],
        "owned": [],
        "predecessor": Predecessor.GONE.value,
        "delay_in_ms": None,
        "lease_ms": None,
        "hold_ms": None,
    }
