"""What a leader writes to the topics: group records, mended records, and deletions of those no longer needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.state.records.round_bytes import EncodedRound
from airflow_provider.state.rounds.classic import ClassicRecord

log: Final = logging.getLogger(__name__)


class LeaderRecords:
    """Writes for one member, which does not wait for it. Failures are only logged, as nothing breaks without a record.

    :param spawn: runs something in the background
    :param leads: whether no round can have begun without the member
    """

    def __init__(
        self,
        topics: GroupTopics,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        leads: Callable[[], bool],
    ) -> None:
        self._topics = topics
        self._spawn = spawn
        self._leads = leads
        self._mending: asyncio.Task[None] | None = None
        self._prepared: tuple[ClassicRecord, asyncio.Future[EncodedRound]] | None = None

    def prepare(self, record: ClassicRecord) -> None:
        """Encode the record before its round is complete, since then all members have a lot to do."""
        encoded: asyncio.Future[EncodedRound] = asyncio.get_running_loop().create_future()
        self._prepared = record, encoded
        self._spawn(self._encode(record, encoded))

    def publish(self, record: ClassicRecord) -> None:
        """Write the record of a completed round.

        Without it, returning workers have to join again, and the next leader has no memory.
        """
        self._spawn(self._publish(record))

    def mend(self) -> None:
        """Write overwritten records again, and delete those of workers and jobs that are gone.

        Compaction keeps the last record of a key, which must not be one that a worker wrote too late.
        """
        if self._mending is None or self._mending.done():
            self._mending = self._spawn(self._mend())

    async def _encode(self, record: ClassicRecord, encoded: asyncio.Future[EncodedRound]) -> None:
        encoded.set_result(await self._topics.encode_group(record))

    async def _publish(self, record: ClassicRecord) -> None:
        prepared, self._prepared = self._prepared, None
        try:
            if prepared is not None and prepared[0] is record:
                await self._topics.publish_group(await prepared[1])
            else:
                await self._topics.publish_group(record)
        except TopicError as failed:
            log.warning(
                "group %s: the record of epoch %d was not written: %s", self._topics.group, record.epoch, failed
            )
        except asyncio.CancelledError:
            log.warning(
                "group %s: the record of epoch %d was not confirmed before its leader ended, and may be lost",
                self._topics.group,
                record.epoch,
            )
            raise

    async def _mend(self) -> None:
        try:
            await self._topics.reassert()
            swept = await self._topics.sweep(self._leads)
        except TopicError as failed:
            log.warning(
                "group %s: overwritten records were not written again, or old ones not deleted: %s",
                self._topics.group,
                failed,
            )
            return
        if swept:
            log.info("group %s: %d records of workers and jobs that are gone were deleted", self._topics.group, swept)
