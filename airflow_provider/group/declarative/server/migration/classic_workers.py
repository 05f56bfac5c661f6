"""Checks whether a group has classic workers, before a declarative group of the same name begins.

Classic workers talk to Kafka's own coordinator, and know nothing of a declarative group. Both kinds of workers would
run all tasks of the group.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.kafka.topics.followed import FollowedTopics
from airflow_provider.state.views.task_progress.progress import spoken_epoch
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.in_short import in_short
from airflow_provider.values.model import Epoch

log: Final = logging.getLogger(__name__)

_FORBIDDEN: Final = KafkaErrorCode.GROUP_AUTHORIZATION_FAILED
_NOT_THERE: Final = frozenset({KafkaErrorCode.NONE, KafkaErrorCode.GROUP_ID_NOT_FOUND})


@dataclass(frozen=True, slots=True)
class Seen:
    """What was found of a group in the classic protocol.

    :param error: why no member may join the declarative group of this name now; NONE: members may join
    :param message: the same for people
    :param epoch: the highest epoch in the records of the group's topics; 0: there are none
    """

    group: str
    error: KafkaErrorCode = KafkaErrorCode.NONE
    message: str = ""
    epoch: Epoch = Epoch(0)


async def look_at(settings: KafkaSettings, group: str) -> Seen:
    """Ask Kafka's own coordinator for members, and read the group's topics. It ends by timeouts, and errors of brokers
    are part of the result.
    """
    try:
        refusal = await _members_of(settings, group)
        return refusal or Seen(group, epoch=await _spoken_in(settings, group))
    except (TransportError, TopicError, TimeoutError, asyncio.TimeoutError) as failed:
        message = f"can't check whether group {group!r} has workers in the classic protocol: {failed}"
        log.warning("%s", message)
        return Seen(group, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, message)


async def _members_of(settings: KafkaSettings, group: str) -> Seen | None:
    """Ask Kafka's coordinator.

    :returns: why no member may join; None: members may join
    """
    async with GroupTransport(settings) as transport:
        (found,) = await transport.describe([group])
    if found.members:
        names = sorted(str(member.group_instance_id or member.member_id) for member in found.members)
        return Seen(
            group,
            KafkaErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"group {group!r} has workers in the classic protocol: {in_short(names)}; they would run the same tasks",
        )
    if found.error is _FORBIDDEN:
        log.warning(
            "can't check whether group %r has workers in the classic protocol: grant %s DESCRIBE on the group."
            " If it has, tasks run twice",
            group,
            settings.principal or "the user of this connection",
        )
    elif found.error not in _NOT_THERE:
        message = f"can't check whether group {group!r} has workers in the classic protocol: {found.error.name}"
        return Seen(group, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    return None


async def _spoken_in(settings: KafkaSettings, group: str) -> Epoch:
    """The highest epoch in the records of the group's topics.

    :raises TopicError: the topics can't be read
    """
    topics = FollowedTopics(settings, group)
    try:
        topics.attach()
        await topics.catch_up()
        status = topics.status
        return max(spoken_epoch(status), status.group.epoch if status.group else Epoch(0))
    except NoTopicError:  # the group has no records yet
        return Epoch(0)
    finally:
        await topics.aclose()
