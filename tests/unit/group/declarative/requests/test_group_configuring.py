"""How a declarative group is configured by people: from the command line and the hook to its coordinator, and back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from declarative_life import SESSION_MS, NearChannel
from stand_ins import MemoryTopics

from airflow_provider.cli.main import main
from airflow_provider.group.declarative.coordinator.settings import MAX_DELAY, SESSION_TIMEOUT
from airflow_provider.group.declarative.protocol.wire.messages.apis import ReplyBody, RequestBody
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    AlterableConfig,
    ConfigOperation,
    ConnectGroupAlterConfigsRequest,
    ConnectGroupAlterConfigsResponse,
)
from airflow_provider.group.declarative.requests import configuring
from airflow_provider.group.declarative.requests.configuring import GroupConfigError, GroupSetting, configure_group
from airflow_provider.group.declarative.requests.request_channel import NoReplyError
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.administration.topic_admin import FoundTopic
from airflow_provider.kafka.topics.errors import RightsError, TopicError
from airflow_provider.kafka.topics.rights import Operation
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode as Code

SETTINGS = KafkaSettings(
    conn_id="k",
    values=(
        ("bootstrap.servers", "nowhere:9"),
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "me"),
    ),
)
ASK = ConnectGroupAlterConfigsRequest(group_id="g")


class Channel:
    """Answers with what it has, one after the other; the last one again and again."""

    def __init__(self, *answers: ReplyBody | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[RequestBody] = []

    async def open(self, *, appear_s: float) -> None:
        assert not appear_s

    async def aclose(self) -> None: ...

    async def ask(self, body: RequestBody, *, timeout_s: float) -> ReplyBody:
        self.asked.append(body)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def settle(self) -> None: ...


def refused(error: Code, why: str = "why") -> ConnectGroupAlterConfigsResponse:
    return ConnectGroupAlterConfigsResponse(error_code=error, error_message=why)


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> set[Operation]:
    """What this user may do with the requests."""
    rights = {Operation.WRITE}

    class Admin:
        def __init__(self, _config: object, _outage: object) -> None: ...

        def close(self) -> None: ...

        async def look_at(self, _topic: str, *, timeout_s: float) -> FoundTopic:
            return FoundTopic(4, frozenset(rights))

    monkeypatch.setattr(configuring, "TopicAdmin", Admin)
    return rights


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch, allowed: set[Operation]) -> Callable[..., Channel]:
    """Have this channel taken."""

    def take(*answers: ReplyBody | Exception) -> Channel:
        channel = Channel(*answers)
        monkeypatch.setattr(configuring, "KafkaChannel", lambda _settings: channel)
        return channel

    return take


@asynccontextmanager
async def coordinated() -> AsyncIterator[NearChannel]:
    channel = NearChannel(MemoryTopics("g"))
    try:
        yield channel
    finally:
        channel.close()


async def test_what_holds_is_the_answer() -> None:
    async with coordinated() as channel:
        unset = {
            "session_timeout_ms": GroupSetting(value=SESSION_MS, is_default=True),
            "heartbeat_interval_ms": GroupSetting(value=30, is_default=True),
            "max_delay_ms": GroupSetting(value=None, is_default=True),
        }
        assert await configuring.asked(channel, ASK, timeout_s=5) == unset
        change = AlterableConfig(name=MAX_DELAY, value="0")
        request = ConnectGroupAlterConfigsRequest(group_id="g", configs=(change,))
        holds = await configuring.asked(channel, request, timeout_s=5)
        assert holds == unset | {"max_delay_ms": GroupSetting(value=0, is_default=False)}


@pytest.mark.turned_clock
async def test_who_cannot_answer_yet_is_asked_again() -> None:
    channel = Channel(
        refused(Code.COORDINATOR_LOAD_IN_PROGRESS), NoReplyError("none"), ConnectGroupAlterConfigsResponse()
    )
    assert await configuring.asked(channel, ASK, timeout_s=30) == {}
    assert len(channel.asked) == 3


@pytest.mark.turned_clock
async def test_nobody_answers() -> None:
    with pytest.raises(TopicError, match=r"group 'g': no coordinator has answered within 1 s \(none\): is a worker"):
        await configuring.asked(Channel(NoReplyError("none")), ASK, timeout_s=1)


async def test_what_is_set_and_reset_is_sent(reached: Callable[..., Channel]) -> None:
    channel = reached(ConnectGroupAlterConfigsResponse())
    await configure_group(SETTINGS, "g", {"session_timeout_ms": 5}, ["max_delay_ms"])
    set_, reset = (
        AlterableConfig(name=SESSION_TIMEOUT, value="5"),
        AlterableConfig(name=MAX_DELAY, config_operation=ConfigOperation.DELETE),
    )
    assert channel.asked == [ConnectGroupAlterConfigsRequest(group_id="g", configs=(set_, reset))]


@pytest.mark.parametrize(
    ("changes", "reset", "said"),
    [
        ({"sesion": 1}, [], "sesion: unknown; the settings are: session_timeout_ms, heartbeat_interval_ms,"),
        ({}, ["delay"], "delay: unknown"),
        ({"max_delay_ms": 1}, ["max_delay_ms"], "max_delay_ms: both set and reset"),
    ],
)
async def test_a_name_that_makes_no_sense(
    changes: Mapping[str, int], reset: list[str], said: str, reached: Callable[..., Channel]
) -> None:
    channel = reached()
    with pytest.raises(GroupConfigError, match=said):
        await configure_group(SETTINGS, "g", changes, reset)
    assert not channel.asked


async def test_who_may_not_write_requests_is_told_so(reached: Callable[..., Channel], allowed: set[Operation]) -> None:
    allowed.clear()
    channel = reached()
    with pytest.raises(RightsError, match="User:me has no right to WRITE on the topic '__worker_requests'"):
        await configure_group(SETTINGS, "g", {})
    assert not channel.asked


class TestCommand:
    @pytest.fixture
    def holds(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """What was asked for."""
        asked: list[Any] = []

        async def configure(
            _settings: object, group: str, changes: Mapping[str, int], reset: list[str]
        ) -> Mapping[str, GroupSetting]:
            asked.append((group, changes, reset))
            if changes.get("session_timeout_ms") == 1:
                raise GroupConfigError("group 'g': INVALID_CONFIG: too short")
            if group == "away":
                raise TopicError("no coordinator")
            return {
                "session_timeout_ms": GroupSetting(value=20_000, is_default=False),
                "max_delay_ms": GroupSetting(value=None, is_default=True),
            }

        monkeypatch.setattr("airflow_provider.cli.group_commands.group_configs.configure_group", configure)
        return asked

    def run(self, *options: str) -> int:
        return main(["groups", "configure", *options, "--bootstrap-servers", "nowhere:9"])

    def test_what_holds_is_shown(self, holds: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run("g") == 0
        assert holds == [("g", {}, [])]
        assert capsys.readouterr().out.splitlines() == [
            "group g:",
            "  session-timeout-ms  20000",
            "  max-delay-ms        as the workers have it (default)",
        ]

    def test_as_json(self, holds: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run("g", "--session-timeout-ms", "20000", "--reset", "max-delay-ms", "--json") == 0
        assert holds == [("g", {"session_timeout_ms": 20_000}, ["max_delay_ms"])]
        assert json.loads(capsys.readouterr().out) == {
            "session_timeout_ms": {"value": 20_000, "is_default": False},
            "max_delay_ms": {"value": None, "is_default": True},
        }

    def test_why_not(self, holds: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run("g", "--session-timeout-ms", "1") == 1
        assert capsys.readouterr().err == "cospark groups configure: group 'g': INVALID_CONFIG: too short\n"
        assert self.run("away") == 2
        assert capsys.readouterr().err == "cospark groups configure: no coordinator\n"
        with pytest.raises(SystemExit):
            self.run("g", "--reset", "sessions")


def test_by_the_hook(monkeypatch: pytest.MonkeyPatch, reached: Callable[..., Channel]) -> None:
    monkeypatch.setattr(SparkGroupHook, "get_settings", lambda _hook: SETTINGS)
    reached(refused(Code.INVALID_CONFIG, "connect.session.timeout.ms is 5 ms"))
    with pytest.raises(GroupConfigError, match=r"group 'g': INVALID_CONFIG: connect.session.timeout.ms is 5 ms"):
        SparkGroupHook("broker").configure_group("g", {"session_timeout_ms": 5})
    reached(ConnectGroupAlterConfigsResponse())
    assert SparkGroupHook("broker").configure_group("g", reset=["max_delay_ms"]) == {}
