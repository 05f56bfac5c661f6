"""Checks and records the settings that people give one group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Final

from airflow_provider.group.declarative.coordinator import values
from airflow_provider.group.declarative.coordinator.events import RequestArrived
from airflow_provider.group.declarative.coordinator.settings import (
    CONFIG_NAMES,
    HEARTBEAT_INTERVAL,
    MAX_DELAY,
    SESSION_TIMEOUT,
    GroupConfiguration,
)
from airflow_provider.group.declarative.coordinator.turn import Turn, longest_interval_ms
from airflow_provider.group.declarative.coordinator.unrecorded_state import Desk
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    AlterableConfig,
    ConfigOperation,
    ConfigSource,
    ConnectGroupAlterConfigsRequest,
    ConnectGroupAlterConfigsResponse,
    GroupConfig,
)
from airflow_provider.group.declarative.protocol.wire.messages.refusals import refusal
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

_LEAST: Final = MappingProxyType({SESSION_TIMEOUT: 1_000, HEARTBEAT_INTERVAL: 100, MAX_DELAY: 0})
"""The lowest values that people may set, in milliseconds. Below these a group would be busy with itself. Lower values
in records are accepted.
"""
_END: Final = 2**31
_NUMBER: Final = re.compile(r"-?[0-9]{1,10}")


def on_alter_configs(turn: Turn, event: RequestArrived, request: ConnectGroupAlterConfigsRequest) -> None:
    """Make all changes or none, as a broker handles IncrementalAlterConfigs of a group. The group need not exist."""
    desk = turn.desk(request.group_id)
    wrong = next(_wrong_requests(request.configs), None)
    if wrong is not None:
        turn.reply(event.request, refusal(request, KafkaErrorCode.INVALID_REQUEST, wrong))
        return
    wrong = next(chain(_wrong_values(request.configs), _wrong_together(turn, desk, request.configs)), None)
    if wrong is not None:
        turn.reply(event.request, refusal(request, KafkaErrorCode.INVALID_CONFIG, wrong))
        return
    _configure(turn, desk, _altered(desk, request.configs))
    turn.reply(event.request, ConnectGroupAlterConfigsResponse(configs=tuple(_configs(turn, desk))))


def _configure(turn: Turn, desk: Desk, configuration: GroupConfiguration) -> None:
    """Record the settings.

    Members learn a shorter session with their next answers, and rely on the one granted before until then. So that
    one is recorded, too: the next coordinator must not end their sessions earlier.
    """
    state = desk.state
    if configuration == state.configuration:
        return
    granted = max(turn.session_ms(desk), state.earlier_session_ms)
    is_shorter = (configuration.session_timeout_ms or turn.settings.session_timeout_ms) < granted
    turn.write(desk, values.configuration_record(state.group_id, configuration, granted if is_shorter else 0))


def _wrong_requests(changes: tuple[AlterableConfig, ...]) -> Iterator[str]:
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            yield f"{change.name} is named twice: name it once"
        seen.add(change.name)
        if change.config_operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            yield f"the operation on {change.name} is {change.config_operation}: it is 0 to set it, or 1 to delete it"
        elif change.config_operation == ConfigOperation.SET and change.value is None:
            yield f"{change.name} is set to nothing: give a value, or delete it"


def _wrong_values(changes: tuple[AlterableConfig, ...]) -> Iterator[str]:
    for change in changes:
        if change.name not in CONFIG_NAMES:
            yield f"{change.name!r} is not a setting of a group; the settings are: {', '.join(CONFIG_NAMES)}"
        elif change.config_operation == ConfigOperation.SET:
            value, least = change.value or "", _LEAST[change.name]
            if not _NUMBER.fullmatch(value):
                yield f"{change.name} is {value[:20]!r}: give it in milliseconds, as a whole number"
            elif not least <= int(value) < _END:
                yield f"{change.name} is {value} ms: set it to {least} ms or more, and to less than 2^31 ms"


def _wrong_together(turn: Turn, desk: Desk, changes: tuple[AlterableConfig, ...]) -> Iterator[str]:
    """Check the heartbeat interval against the session. Only an interval that people set is refused: a default that is
    too long is shortened where it is used.
    """
    after = _altered(desk, changes)
    interval_ms, session_ms = after.heartbeat_interval_ms, after.session_timeout_ms or turn.settings.session_timeout_ms
    if changes and interval_ms is not None and interval_ms > longest_interval_ms(session_ms):
        yield (
            f"{HEARTBEAT_INTERVAL} is {interval_ms} ms, more than three tenths of {SESSION_TIMEOUT}, {session_ms} ms:"
            f" set it to {longest_interval_ms(session_ms)} ms or less, or the session to {-(-interval_ms * 10 // 3)} ms"
            " or more"
        )


def _altered(desk: Desk, changes: tuple[AlterableConfig, ...]) -> GroupConfiguration:
    after = {
        CONFIG_NAMES[one.name]: int(one.value or 0) if one.config_operation == ConfigOperation.SET else None
        for one in changes
    }
    return replace(desk.state.configuration, **after)


def _configs(turn: Turn, desk: Desk) -> Iterator[GroupConfig]:
    defaults = {SESSION_TIMEOUT: turn.session_ms(desk), HEARTBEAT_INTERVAL: turn.interval_ms(desk)}
    for name, attribute in CONFIG_NAMES.items():
        value: int | None = getattr(desk.state.configuration, attribute)
        source = ConfigSource.DEFAULT if value is None else ConfigSource.GROUP
        held = defaults.get(name) if value is None else value
        yield GroupConfig(name=name, value=None if held is None else str(held), config_source=source)
