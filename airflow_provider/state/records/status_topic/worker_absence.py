"""What a worker's record says of its absence: it has left, or waits for Airflow to start its next process or a trigger.
Pure.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from airflow_provider.assignment.model import Absence
from airflow_provider.state.records.status_topic.awaited import Awaited
from airflow_provider.state.records.status_topic.worker_status import WorkerPhase, WorkerStatus
from airflow_provider.values.model import Epoch, MemberId, WorkerId

_TRIED_AGAIN_MS: Final = 10 * 60_000


def waits_for_airflow(said: WorkerStatus) -> str:
    """What this worker has waited for since its membership was handed over, and since when; empty: nothing."""
    return said.condition if said.awaits is not None else ""


def written_absences(
    gone: Mapping[MemberId, WorkerId], workers: Mapping[WorkerId, WorkerStatus], *, since: Epoch
) -> dict[MemberId, Absence]:
    """What former members have written of their absence: why they left, and how soon they return.

    Only statements of the process that was the member count, as another one may have had the name before: they were
    made under its member id, or in the last assignment's epoch. The record of one that waits for a triggerer has no
    member id, so that nobody takes it for gone.

    :param gone: the names of former members
    :param since: the epoch of the last assignment
    """
    said = {member: workers[name] for member, name in gone.items() if name in workers}
    return {
        member: Absence(left=word.left, returns_ms=word.returns_ms)
        for member, word in said.items()
        if word.epoch >= since or word.member_id == member or word.awaits is Awaited.TRIGGERER
    }


def may_not_be_started(
    members: Container[WorkerId], workers: Mapping[WorkerId, WorkerStatus], *, wall_ms: int
) -> frozenset[WorkerId]:
    """The deferred workers, if Airflow has let another one's session end without starting its process: what holds that
    one back may hold them back, too. After a while they count like any others: they are tried again.

    :param members: those in the group
    :param wall_ms: now, milliseconds since 1970
    """
    held_back = (said for worker, said in workers.items() if said.awaits is Awaited.PROCESS and worker not in members)
    if not any(abs(wall_ms - said.at_ms) < _TRIED_AGAIN_MS for said in held_back):
        return frozenset()
    return frozenset(
        worker
        for worker, said in workers.items()
        if said.state is WorkerPhase.DEFERRED and worker in members and said.awaits is None
    )
