"""Bookmarks: how far asset watchers have been told of a group's events. They are kept as committed offsets of consumer
groups.

No consumer ever joins these consumer groups, because one reader reads for all. The broker forgets an offset that is not
committed again within ``offsets.retention.minutes`` (7 days by default).

They are read and written over the connections of group requests. librdkafka's admin client (2.16) could do it, but ends
the process, here a triggerer, if another broker coordinates the consumer group now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.topics.errors import PassingError, RightsError, TopicError
from airflow_provider.kafka.topics.rights import Operation, Right
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

if TYPE_CHECKING:
    from airflow_provider.kafka.group_requests.messages import CommittedOffset, NodeId
    from airflow_provider.kafka.group_requests.transport import GroupTransport

_PATIENCE_S: Final = 10.0
_AGAIN_S: Final = 0.1
_NOT_NOW: Final = frozenset(
    {
        KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
        KafkaErrorCode.NOT_COORDINATOR,
        KafkaErrorCode.REQUEST_TIMED_OUT,
        KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class Bookmark:
    """The bookmark of a watcher.

    :param name: its name, and that of its consumer group
    :param topic: the topic that it is in
    """

    def __init__(self, transport: GroupTransport, name: str, topic: str) -> None:
        self._transport = transport
        self._name = name
        self._topic = topic

    async def read(self) -> int | None:
        """The offset of the first record that has not been told yet; None: there is no such bookmark.

        :raises TopicError: if it can't be read
        """
        found = await self._ask("read", lambda at: self._transport.committed(at, self._name, self._topic))
        return found.offset

    async def put(self, offset: int) -> None:
        """Note that everything before this offset has been told.

        :raises TopicError: if it can't be written
        """
        await self._ask("written", lambda at: self._transport.commit(at, self._name, self._topic, offset))

    async def _ask(self, done: str, ask: Callable[[NodeId], Awaitable[CommittedOffset]]) -> CommittedOffset:
        """Ask the coordinator of the consumer group, and ask again for some time after errors that may pass.

        :raises TopicError: if there is no answer
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE_S
        while True:
            try:
                return await self._ask_once(done, ask)
            except PassingError:
                if loop.time() >= until:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _ask_once(self, done: str, ask: Callable[[NodeId], Awaitable[CommittedOffset]]) -> CommittedOffset:
        refused = f"the bookmark {self._name!r} (a consumer group) can't be {done}"
        try:
            coordinator = await self._transport.find_coordinator(self._name)
            answer = None if coordinator.error else await ask(coordinator.node)
        except TransportError as failed:
            raise (PassingError if failed.retriable else TopicError)(f"{refused}: {failed}") from failed
        error = coordinator.error if answer is None else answer.error
        if error is KafkaErrorCode.GROUP_AUTHORIZATION_FAILED:
            raise RightsError([Right(self._name, Operation.READ, "group")], self._transport.principal)
        if error in _NOT_NOW:
            raise PassingError(f"{refused}: {error.name}")
        if answer is None or error:
            raise TopicError(f"{refused}: {error.name}")
        return answer
