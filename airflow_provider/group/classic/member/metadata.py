"""The metadata with which a member joins."""

from __future__ import annotations

from airflow_provider.group.classic.member.state import MemberState
from airflow_provider.group.classic.wire import CONNECTS, LEARNING, extensible
from airflow_provider.group.classic.wire.extensible import ExtensibleState
from airflow_provider.group.held_tasks import Predecessor
from airflow_provider.values.model import (
    NO_GENERATION,
    NO_TASKS,
    UNKNOWN_MEMBER_ID,
    Assignment,
    SubProtocol,
    Tasks,
    WorkerState,
)
from airflow_provider.values.packed_tasks import PackedTasks


def offers(state: MemberState, now_ms: int) -> tuple[tuple[str, bytes], ...]:
    """The metadata for each embedded protocol that this member offers, by its name, the preferred one first."""
    return tuple(
        (
            offer.value,
            _extensible(state, offer, now_ms) if offer.learns else _connects(state, offer, now_ms),
        )
        for offer in state.settings.protocol.offered
    )


def _extensible(state: MemberState, offer: SubProtocol, now_ms: int) -> bytes:
    """Metadata of v3 and v4. The epoch changes with each round, so they differ from those of the last join; when a
    delay has ended, that makes the coordinator rebalance.
    """
    learning, progress = extensible.learning(state.lessons.how_far())
    ready = state.lessons.ready(state.settings.ready_from)
    return LEARNING[offer].encode_metadata(
        ExtensibleState(
            version=offer.version,
            url=state.settings.url if state.url is None else state.url,
            config_offset=state.config_offset,
            owned=PackedTasks.of(_predecessors(state, now_ms) if state.returning else state.owned),
            learning=learning,
            progress=progress,
            ready=PackedTasks.of(ready),
            leaving=state.leaving_soon,
            slots=state.settings.slots,
            epoch=state.epoch or None,
            failed=PackedTasks.of(state.lessons.failed - ready),
        )
    )


def _connects(state: MemberState, offer: SubProtocol, now_ms: int) -> bytes:
    return CONNECTS[offer].encode_metadata(
        WorkerState(
            version=offer.version,
            url=state.settings.url if state.url is None else state.url,
            config_offset=state.config_offset,
            assignment=_owned(state, offer, now_ms) if offer.cooperative else None,
        )
    )


def _owned(state: MemberState, offer: SubProtocol, now_ms: int) -> Assignment | None:
    """What this member says it owns, in v1 and v2.

    It includes the delay of the last round, as in Connect: the coordinator only rebalances if the metadata differ from
    those of the last join, and when the delay has ended it has to. A returning member does not know yet what it owns.
    It only reports what a predecessor may still run.
    """
    if state.returning:
        claimed = _predecessors(state, now_ms)
        return Assignment(version=offer.version, assigned=claimed) if claimed else None
    return Assignment(
        version=offer.version,
        leader=state.last_leader,
        config_offset=state.config_offset,
        assigned=state.owned,
        delay_ms=state.told_delay_ms,
    )


def _predecessors(state: MemberState, now_ms: int) -> Tasks:
    """What is reported though it does not run here.

    First, what the process that had this name may still run: no other member may get it while its lease lasts. Second,
    tasks that a new member had from the start: it is a bridge, and others run them
    (:mod:`airflow_provider.group.declarative.bridge`).
    """
    if state.former_id == UNKNOWN_MEMBER_ID and state.last_completed == NO_GENERATION and state.owned:
        return state.owned
    if state.record is None or not (state.predecessor is Predecessor.UNKNOWN or state.predecessor_may_run(now_ms)):
        return NO_TASKS
    worker = state.settings.worker
    return state.record.owned_by(worker) | state.record.revoked_from(worker)
