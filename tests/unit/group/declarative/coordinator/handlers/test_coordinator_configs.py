"""What people set for a group, as they ask its coordinator for it."""

from __future__ import annotations

import pytest
from coordinated import GROUP, W1, Shard, everything, whole

from airflow_provider.group.declarative.coordinator.settings import (
    CONFIG_NAMES,
    HEARTBEAT_INTERVAL,
    MAX_DELAY,
    SESSION_TIMEOUT,
    CoordinatorSettings,
    GroupConfiguration,
)
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    AlterableConfig,
    ConfigSource,
    ConnectGroupAlterConfigsRequest,
    ConnectGroupAlterConfigsResponse,
    GroupConfig,
)
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode as Code

SET, DEFAULT = ConfigSource.GROUP, ConfigSource.DEFAULT
UNSET = (
    GroupConfig(name=SESSION_TIMEOUT, value="10000", config_source=DEFAULT),
    GroupConfig(name=HEARTBEAT_INTERVAL, value="3000", config_source=DEFAULT),
    GroupConfig(name=MAX_DELAY, value=None, config_source=DEFAULT),
)


def test_without_a_change_it_says_what_holds() -> None:
    shard = Shard()
    assert shard.alter({}).configs == UNSET
    assert not shard.log
    assert not shard.coordinator.groups, "who only asks leaves nothing of a group that there is not"


def test_what_is_set_holds_for_members_and_the_rest_stays() -> None:
    shard = Shard()
    shard.join(W1)
    shard.alter({MAX_DELAY: 0})
    assert shard.alter({SESSION_TIMEOUT: 20_000, HEARTBEAT_INTERVAL: 5_000}).configs == (
        GroupConfig(name=SESSION_TIMEOUT, value="20000", config_source=SET),
        GroupConfig(name=HEARTBEAT_INTERVAL, value="5000", config_source=SET),
        GroupConfig(name=MAX_DELAY, value="0", config_source=SET),
    )
    reply = shard.heartbeat(W1, 0, **whole())
    assert (reply.session_timeout_ms, reply.heartbeat_interval_ms) == (20_000, 5_000)
    assert shard.prepare(W1, 0).scheduled_rebalance_max_delay_ms == 0
    shard.fail_over()
    reply = shard.heartbeat(W1, 0, **whole())
    assert (reply.session_timeout_ms, reply.heartbeat_interval_ms) == (20_000, 5_000)


def test_a_group_can_be_configured_before_anybody_is_in_it_and_forgotten_again() -> None:
    shard = Shard()
    shard.alter({SESSION_TIMEOUT: 30_000})
    assert shard.group.configuration == GroupConfiguration(session_timeout_ms=30_000)
    assert shard.join(W1).session_timeout_ms == 30_000
    shard = Shard()
    shard.alter({SESSION_TIMEOUT: 30_000})
    assert shard.alter(dict.fromkeys(CONFIG_NAMES)).configs == UNSET
    assert shard.log[-1][1] is None or not shard.coordinator.groups
    shard.fail_over()
    assert not shard.coordinator.groups


def test_a_default_that_is_too_long_for_what_is_set_is_shown_as_it_is_used() -> None:
    shard = Shard()
    configs = shard.alter({SESSION_TIMEOUT: 6_000}).configs
    assert configs[1] == GroupConfig(name=HEARTBEAT_INTERVAL, value="1800", config_source=DEFAULT)
    assert shard.join(W1).heartbeat_interval_ms == 1_800


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"connect.sesion.timeout.ms": 1},
            "'connect.sesion.timeout.ms' is not a setting of a group; the settings are: ",
        ),
        ({f"{SESSION_TIMEOUT}.earlier": 1_000}, "is not a setting of a group"),
        ({SESSION_TIMEOUT: "soon"}, "connect.session.timeout.ms is 'soon': give it in milliseconds, as a whole number"),
        ({SESSION_TIMEOUT: "1_000"}, "as a whole number"),
        ({SESSION_TIMEOUT: "9" * 5_000}, "connect.session.timeout.ms is '99999999999999999999': "),
        ({SESSION_TIMEOUT: 999}, "connect.session.timeout.ms is 999 ms: set it to 1000 ms or more"),
        ({SESSION_TIMEOUT: 2**31}, "and to less than 2^31 ms"),
        ({HEARTBEAT_INTERVAL: 99}, "connect.heartbeat.interval.ms is 99 ms: set it to 100 ms or more"),
        ({MAX_DELAY: -1}, "scheduled.rebalance.max.delay.ms is -1 ms: set it to 0 ms or more"),
        (
            {HEARTBEAT_INTERVAL: 3_001},
            "tenths of connect.session.timeout.ms, 10000 ms: set it to 3000 ms or less, or the session to 10004 ms",
        ),
        ({HEARTBEAT_INTERVAL: 2_000, SESSION_TIMEOUT: 6_000}, "set it to 1800 ms or less, or the session to 6667 ms"),
    ],
)
def test_what_may_not_be_is_named_and_nothing_is_changed(changes: dict[str, object], said: str) -> None:
    shard = Shard()
    shard.alter({MAX_DELAY: 5})
    before, log = everything(shard.group), list(shard.log)
    reply = shard.alter({MAX_DELAY: 7} | changes)
    assert reply.error_code == Code.INVALID_CONFIG
    assert said in str(reply.error_message)
    assert not reply.configs
    assert (everything(shard.group), shard.log) == (before, log)


def test_a_session_that_is_too_short_for_the_interval_that_is_set() -> None:
    shard = Shard()
    shard.alter({HEARTBEAT_INTERVAL: 3_000})
    assert shard.alter({SESSION_TIMEOUT: 5_000}).error_code == Code.INVALID_CONFIG
    assert shard.alter({SESSION_TIMEOUT: 5_000, HEARTBEAT_INTERVAL: None}).error_code == Code.NONE


@pytest.mark.parametrize(
    ("group", "configs", "said"),
    [
        ("", (), "GroupId is empty"),
        (GROUP, (AlterableConfig(name=MAX_DELAY, value="1"),) * 2, "is named twice"),
        (GROUP, (AlterableConfig(name=MAX_DELAY, value="1", config_operation=2),), "the operation on "),
        (GROUP, (AlterableConfig(name=MAX_DELAY),), "is set to nothing"),
    ],
)
def test_a_request_that_makes_no_sense(group: str, configs: tuple[AlterableConfig, ...], said: str) -> None:
    shard = Shard()
    reply = shard.answer(ConnectGroupAlterConfigsRequest(group_id=group, configs=configs))
    assert isinstance(reply, ConnectGroupAlterConfigsResponse)
    assert (reply.error_code, reply.configs) == (Code.INVALID_REQUEST, ())
    assert said in str(reply.error_message)
    assert not shard.coordinator.groups


def test_where_declarative_groups_are_switched_off() -> None:
    shard = Shard(CoordinatorSettings(enabled=False))
    assert shard.alter({MAX_DELAY: 1}).error_code == Code.UNSUPPORTED_VERSION


def test_the_longest_session_counts_that_a_member_may_still_have() -> None:
    shard = Shard()
    assert shard.coordinator.longest_session_ms == 10_000
    shard.join(W1)
    shard.alter({SESSION_TIMEOUT: 30_000})
    assert shard.coordinator.longest_session_ms == 30_000
    shard.alter({SESSION_TIMEOUT: 20_000})
    assert shard.coordinator.longest_session_ms == 30_000, "it may not have heard of the shorter one"


def test_the_shortest_session_is_the_one_that_people_have_set() -> None:
    shard = Shard()
    assert shard.coordinator.shortest_session_ms == 10_000
    shard.join(W1)
    for session_ms in (8_000, 30_000):
        shard.alter({SESSION_TIMEOUT: session_ms})
        assert shard.coordinator.shortest_session_ms == session_ms
