"""Shows and changes the settings of a declarative group, by requests to its coordinator."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.group.declarative.coordinator.settings import HEARTBEAT_INTERVAL, MAX_DELAY, SESSION_TIMEOUT
from airflow_provider.group.declarative.protocol.sharding import REQUESTS_TOPIC
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    AlterableConfig,
    ConfigOperation,
    ConfigSource,
    ConnectGroupAlterConfigsRequest,
    ConnectGroupAlterConfigsResponse,
)
from airflow_provider.group.declarative.requests.request_channel import KafkaChannel, NoReplyError, RequestChannel
from airflow_provider.kafka.settings import KafkaSettings, principal_of
from airflow_provider.kafka.topics.administration.topic_admin import TopicAdmin
from airflow_provider.kafka.topics.errors import RightsError, TopicError
from airflow_provider.kafka.topics.followed import DEFAULT_TIMEOUT_S
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.kafka.topics.rights import Operation, Right
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"session_timeout_ms": SESSION_TIMEOUT, "heartbeat_interval_ms": HEARTBEAT_INTERVAL, "max_delay_ms": MAX_DELAY}
)
"""The settings: the names of workers' parameters, and the names in the record."""

_NOT_YET: Final = frozenset(
    {
        KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
        KafkaErrorCode.NOT_COORDINATOR,
    }
)
_AGAIN_S: Final = 0.2
_REPLY_S: Final = 5.0
"""How long to wait for a reply before asking again: the coordinator may have ended. Asking twice does no harm."""


class GroupConfigError(ValueError):
    """A coordinator has refused the request; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSetting:
    """One setting of a group.

    :param value: in milliseconds; None: the value of the members' assignors
    :param is_default: whether it was not set for this group
    """

    value: int | None
    is_default: bool

    def to_json(self) -> dict[str, Any]:
        """The setting as JSON, for people's scripts."""
        return {"value": self.value, "is_default": self.is_default}


async def configure_group(
    settings: KafkaSettings,
    group: str,
    changes: Mapping[str, int],
    reset: Collection[str] = (),
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Mapping[str, GroupSetting]:
    """Change all of these settings, or none. Returns when this is recorded.

    :param changes: new values in milliseconds, by names of :data:`NAMES`
    :param reset: the names of settings that get the default again
    :returns: the present settings by name
    :raises GroupConfigError: a value is refused, or a name is unknown or in both
    :raises RightsError: this user may not send requests
    :raises TopicError: no coordinator can be reached, or none has answered in time
    """
    unknown = sorted({*changes, *reset} - NAMES.keys())
    if unknown:
        raise GroupConfigError(f"{', '.join(unknown)}: unknown; the settings are: {', '.join(NAMES)}")
    both = sorted(changes.keys() & set(reset))
    if both:
        raise GroupConfigError(f"{', '.join(both)}: both set and reset; do one of them")
    configs = [AlterableConfig(name=NAMES[name], value=str(value)) for name, value in changes.items()]
    configs += [AlterableConfig(name=NAMES[name], config_operation=ConfigOperation.DELETE) for name in set(reset)]
    request = ConnectGroupAlterConfigsRequest(group_id=group, configs=tuple(configs))

    await _check_right(settings, timeout_s)
    channel = KafkaChannel(settings)
    try:
        await channel.open(appear_s=0.0)
        return await asked(channel, request, timeout_s=timeout_s)
    finally:
        await channel.aclose()


async def _check_right(settings: KafkaSettings, timeout_s: float) -> None:
    """Check the right to write first: a producer reports a missing right only after all its tries."""
    config = settings.librdkafka()
    with closing(TopicAdmin(config, Outage(settings.bootstrap_servers))) as admin:
        found = await admin.look_at(REQUESTS_TOPIC, timeout_s=timeout_s)
    if found is not None and Operation.WRITE not in found.allowed:
        raise RightsError((Right(REQUESTS_TOPIC, Operation.WRITE),), principal_of(config))


async def asked(
    channel: RequestChannel, request: ConnectGroupAlterConfigsRequest, *, timeout_s: float
) -> Mapping[str, GroupSetting]:
    """Send the request again and again, until the group's coordinator has answered.

    :raises GroupConfigError: the coordinator refuses the request
    :raises TopicError: no coordinator has answered in time
    """
    until, why = time.monotonic() + timeout_s, ""
    while (left_s := until - time.monotonic()) > 0:
        try:
            reply = await channel.ask(request, timeout_s=min(left_s, _REPLY_S))
        except NoReplyError as missing:
            why = str(missing)
            await asyncio.sleep(_AGAIN_S)
            continue
        assert isinstance(reply, ConnectGroupAlterConfigsResponse), reply
        error = KafkaErrorCode(reply.error_code)
        if error is KafkaErrorCode.NONE:
            return _by_name(reply)
        if error not in _NOT_YET:
            raise GroupConfigError(f"group {request.group_id!r}: {error.name}: {reply.error_message}")
        why = f"{error.name}: {reply.error_message}"
        await asyncio.sleep(_AGAIN_S)
    raise TopicError(
        f"group {request.group_id!r}: no coordinator has answered within {timeout_s:g} s ({why}): is a worker with"
        " group_protocol='connect', or cospark coordinator, running? The request may still be carried out later"
    )


def _by_name(reply: ConnectGroupAlterConfigsResponse) -> Mapping[str, GroupSetting]:
    """The known settings in a reply; a newer coordinator may have others."""
    known = {one.name: one for one in reply.configs}
    return {
        name: GroupSetting(
            value=None if known[called].value is None else int(known[called].value or 0),
            is_default=known[called].config_source == ConfigSource.DEFAULT,
        )
        for name, called in NAMES.items()
        if called in known
    }
