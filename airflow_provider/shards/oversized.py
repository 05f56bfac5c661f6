"""What no topic takes in one record, so that it is not tried again and again: each try costs the whole shard a load."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from airflow_provider.coordinator.desk import Untaken
from airflow_provider.declarative.sharding import RECORDS_TOPIC
from airflow_provider.declarative.wire.errors import MalformedMessageError
from airflow_provider.declarative.wire.records import decode_record
from airflow_provider.protocol.model import Tasks
from airflow_provider.shards.errors import OversizedError
from airflow_provider.shards.machine import Machine

log: Final = logging.getLogger(__name__)


class Oversized:
    """Of one shard. It outlives the machine, whose state is ahead when a transaction has failed."""

    def __init__(self) -> None:
        self._jobs: dict[str, Tasks] = {}
        self._targets: dict[str, Untaken] = {}

    def note_jobs(self, jobs: Mapping[str, Tasks]) -> None:
        """What is configured in these groups has led to it, perhaps: they keep what they had."""
        self._jobs.update(jobs)

    def has_jobs(self, group: str, tasks: Tasks) -> bool:
        if self._jobs.get(group) != tasks:
            return False
        log.warning("the %d tasks of group %r are too many for a record: it keeps what it had", len(tasks), group)
        return True

    def note_target(self, machine: Machine, failed: OversizedError) -> None:
        """Nobody has asked for it: it was the machine's own doing, by whatever group the record is of.

        :param machine: the one that is of no use any more
        """
        group = _group_of(failed)
        if group is not None:
            self._targets[group] = Untaken(machine.made_of(group), str(failed))
            log.warning("group %r keeps its target, until its members or tasks change: %s", group, failed)

    def targets(self) -> Iterator[tuple[str, Untaken]]:
        """By group."""
        yield from self._targets.items()


def _group_of(failed: OversizedError) -> str | None:
    if failed.write is None or failed.write.topic != RECORDS_TOPIC:
        return None
    try:
        return decode_record(failed.write.key or b"", None).key.group_id
    except MalformedMessageError:
        return None
