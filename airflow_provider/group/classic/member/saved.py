"""A membership as JSON: saved in one process, continued in another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider.group.classic.member.lessons import NO_LESSONS, Lessons
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.classic.member.state import MemberState, Phase
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.values.model import (
    NO_GENERATION,
    UNKNOWN_MEMBER_ID,
    ConfigOffset,
    Epoch,
    GenerationId,
    LocalProtocolError,
    MemberId,
    SubProtocol,
    tasks_from_json,
    tasks_to_json,
)
from airflow_provider.values.saved import SAVED_VERSION, check_saved, reading_saved


def save(state: MemberState, *, now_ms: int, wall_ms: int) -> dict[str, Any]:
    """Save what another process needs to continue this membership.

    Left out is what that process reads itself (the jobs topic's offset and the group record), and tasks that were told
    to stop, which end with this process.

    :param now_ms: this process's monotonic clock
    :param wall_ms: the wall clock at the same moment, by which the other process translates times
    :raises LocalProtocolError: if the membership is ending or has ended, so can't be continued
    """
    if state.phase is Phase.LEAVING or state.phase.ended:
        raise LocalProtocolError(f"a membership that is {state.phase.value} cannot be handed over")
    stable = state.phase is Phase.STABLE and state.unadopted is None
    return {
        "v": SAVED_VERSION,
        "stable": stable,
        "member_id": state.member_id,
        "former_id": state.former_id,
        "generation": state.generation,
        "leader": state.leader,
        "protocol": state.protocol.recorded.value if state.protocol else None,
        "last_completed": state.last_completed,
        "last_leader": state.last_leader,
        "epoch": state.epoch,
        "told_delay_ms": state.told_delay_ms,
        "owned": tasks_to_json(state.owned - (state.stopping - state.held)),
        **state.lessons.to_json(),
        "leaving_soon": state.leaving_soon,
        "needed_offset": state.needed_offset,
        "predecessor": state.predecessor.value,
        "returning": state.returning,
        "rejoin_reason": state.rejoin_reason,
        "heard_ms": state.heard_at - now_ms,
        "lease_ms": None if state.lease_until is None else state.lease_until - now_ms,
        "rejoin_in_ms": None if state.rejoin_at is None else state.rejoin_at - now_ms,
        "deadline_ms": None if state.rebalance_deadline is None else state.rebalance_deadline - now_ms,
        "hold_ms": None if state.hold_until is None else state.hold_until - now_ms,
        "saved_at_ms": wall_ms,
    }


def resume(data: Mapping[str, Any], settings: MemberSettings, *, now_ms: int, wall_ms: int) -> MemberState:
    """The inverse of :func:`save`; feed the state a :class:`~.events.Resumed` next.

    :raises ValueError: for anything that :func:`save` has not made
    """
    check_saved(data, "membership")
    with reading_saved("membership"):
        return _resume(data, settings, now_ms=now_ms, wall_ms=wall_ms)


def _resume(data: Mapping[str, Any], settings: MemberSettings, *, now_ms: int, wall_ms: int) -> MemberState:
    shift = now_ms - max(0, wall_ms - int(data["saved_at_ms"]))

    def at(key: str) -> int | None:
        return None if data[key] is None else int(data[key]) + shift

    state = MemberState(
        settings=settings,
        member_id=MemberId(data["member_id"]),
        former_id=MemberId(data.get("former_id", UNKNOWN_MEMBER_ID)),
        generation=GenerationId(int(data["generation"])),
        leader=MemberId(data["leader"]),
        protocol=None if data["protocol"] is None else SubProtocol(data["protocol"]),
        last_completed=GenerationId(int(data["last_completed"])),
        last_leader=MemberId(data["last_leader"]),
        epoch=Epoch(int(data["epoch"])),
        told_delay_ms=int(data["told_delay_ms"]),
        owned=tasks_from_json(data["owned"]),
        lessons=Lessons.from_json(data),
        leaving_soon=data.get("leaving_soon"),
        needed_offset=ConfigOffset(int(data["needed_offset"])),
        predecessor=Predecessor(data["predecessor"]),
        returning=bool(data["returning"]),
        rejoin_reason=data["rejoin_reason"],
        heard_at=int(data["heard_ms"]) + shift,
        lease_until=at("lease_ms"),
        rebalance_deadline=at("deadline_ms"),
        rejoin_at=at("rejoin_in_ms"),
        hold_until=at("hold_ms"),
    )
    if not data["stable"]:
        return state.changed({"rejoin_reason": state.rejoin_reason or "the rebalance was cut short by a hand-over"})
    return state


def taken_over(saved: Mapping[str, Any]) -> dict[str, Any]:
    """The membership for a process that can't know whether the one before still holds it.

    It joins under the same name as a new member. The coordinator then fences the process before, even if that is alive,
    and does not rebalance; the group's record has what the member owns. Only for a membership that runs nothing, as in
    a triggerer.

    :param saved: what :func:`save` made
    """
    return {
        **saved,
        "stable": False,
        "member_id": UNKNOWN_MEMBER_ID,
        "former_id": UNKNOWN_MEMBER_ID,
        "generation": NO_GENERATION,
        "leader": UNKNOWN_MEMBER_ID,
        "protocol": None,
        "last_completed": NO_GENERATION,
        "last_leader": UNKNOWN_MEMBER_ID,
        "epoch": 0,
        "told_delay_ms": 0,
        "owned": [],
        **NO_LESSONS.to_json(),
        "predecessor": Predecessor.GONE.value,
        "returning": True,
        "rejoin_reason": "another triggerer takes over the worker",
        "lease_ms": None,
        "rejoin_in_ms": None,
        "deadline_ms": None,
        "hold_ms": None,
    }
