"""The two records of a round as bytes: for the status topic, and for the timeline.

They are plain, with ``[job, index]`` pairs, or packed: with a table of tasks
(:mod:`~airflow_provider.state.rounds.task_sets`), in a fifth of the bytes and of the time. Packed ones have a higher
version, so an older release says that it can't read them, and skips them. A worker would then have to join again
whenever it comes back, and a leader would have no memory. So a round is packed only if all its workers say that they
read this; during an upgrade, that is when the last worker has been restarted. Small rounds are always plain: they cost
little, and any Kafka tool shows them to people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from airflow_provider.state.records.envelope import PACKED_VERSION, encode, encode_packed
from airflow_provider.state.records.events import RebalanceEvent
from airflow_provider.state.records.status_topic.worker_status import WorkerStatus
from airflow_provider.state.rounds.group_record import GroupRecord
from airflow_provider.state.rounds.task_sets import TABLE, TaskSets
from airflow_provider.values.model import WorkerId

PACKED_FROM: Final = 2_000
"""From this number of tasks on, rounds are packed: plain, they have 70 kB, and take a core 10 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRound:
    """The records of a completed round, as bytes: for the status topic, and for the timeline."""

    status: bytes
    event: bytes


def is_packed(record: GroupRecord, workers: Mapping[WorkerId, WorkerStatus]) -> bool:
    """Whether a round is to be packed.

    :param workers: what workers have last said of themselves
    """
    if sum(map(len, record.assignment.values())) < PACKED_FROM:
        return False
    said = map(workers.get, record.members)
    return all(worker is not None and worker.reads >= PACKED_VERSION for worker in said)


def encoded_round(record: GroupRecord, *, packed: bool) -> EncodedRound:
    """The records of a round.

    :raises ValueError: for what JSON can't carry
    """
    event = RebalanceEvent.of(record)
    if not packed:
        return EncodedRound(status=encode(record.to_json()), event=encode(event.to_json()))
    sets = TaskSets()
    status, told = record.to_json(sets.number), event.to_json(sets.number)
    table = {TABLE: sets.to_json()}
    return EncodedRound(status=encode_packed({**status, **table}), event=encode_packed({**told, **table}))
