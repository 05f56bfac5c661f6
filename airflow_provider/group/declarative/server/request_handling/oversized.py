"""Remembers what is too large for a record, so that it is not tried again: after each try the shard has to be loaded
again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from airflow_provider.group.declarative.coordinator.desk import Untaken
from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC
from airflow_provider.group.declarative.protocol.wire.records import group_id_of
from airflow_provider.group.declarative.server.errors import OversizedError
from airflow_provider.group.declarative.server.ports import Machine
from airflow_provider.values.model import Tasks

log: Final = logging.getLogger(__name__)


class Oversized:
    """The oversized jobs and targets of one shard. It outlives the state machine, which is discarded after a failed
    transaction.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, Tasks] = {}
        self._targets: dict[str, Untaken] = {}

    def note_jobs(self, jobs: Mapping[str, Tasks]) -> None:
        """Note changes of configured tasks that may have led to a record that is too large, or to a failure."""
        self._jobs.update(jobs)

    def has_jobs(self, group: str, tasks: Tasks) -> bool:
        """Whether these configured tasks were noted. Then the group keeps its former ones."""
        if self._jobs.get(group) != tasks:
            return False
        log.warning(
            "the %d tasks of group %r are too many for a record, or could not be handled: it keeps its former ones",
            len(tasks),
            group,
        )
        return True

    def note_target(self, machine: Machine, failed: OversizedError) -> None:
        """Note a target that is too large, and that the machine has computed without a request. The failed record names
        the group.

        :param machine: the machine that has computed it, and is discarded
        """
        group = _group_id_of(failed)
        if group is not None:
            self._targets[group] = Untaken(machine.made_of(group), str(failed))
            log.warning("group %r keeps its target, until its members or tasks change: %s", group, failed)

    def targets(self) -> Iterator[tuple[str, Untaken]]:
        """The targets that are too large, by group."""
        yield from self._targets.items()


def _group_id_of(failed: OversizedError) -> str | None:
    if failed.write is None or failed.write.topic != RECORDS_TOPIC:
        return None
    return group_id_of(failed.write.key)
