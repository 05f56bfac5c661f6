"""The errors when topics can't be reached, or not by this user; and an outage that does no harm."""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from secured import grant
from topic_bench import JOB, PLAN, TASK, settings_of, task_status
from waiting import DEADLINE_S, eventually

from airflow_provider.integration.one_shot import list_groups, read_group
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import (
    BrokerAwayError,
    RefusedError,
    RightsError,
    TooLargeError,
    TopicError,
    TopicRightsError,
)
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TopicNames

pytestmark = pytest.mark.usefixtures("nothing_left_open")


async def _opened(settings: KafkaSettings, group: str) -> None:
    async with GroupTopics(settings, group):
        pass


async def test_a_record_that_is_too_large_for_the_broker_is_told_at_once(
    settings: KafkaSettings, group_id: str
) -> None:
    """Its compressed size counts."""
    config = {"noise": base64.b64encode(random.randbytes(2_000_000)).decode()}
    async with GroupTopics(settings, group_id, WORKER) as topics:
        with pytest.raises(TooLargeError, match=r"'job:flights'.*max\.message\.bytes"):
            await topics.submit(replace(JOB, config=config))
        assert (await topics.submit(replace(JOB, config={"months": "1" * 2_000_000}))).changed


class TestBrokerAway:
    def test_a_broker_that_is_not_there_is_named(self) -> None:
        settings = settings_of("127.0.0.1:9")
        started = time.monotonic()
        with pytest.raises(BrokerAwayError, match=r"no broker answered at 127\.0\.0\.1:9 while .*check bootstrap"):
            read_group(settings, "any", timeout_s=1.0)
        with pytest.raises(BrokerAwayError, match=r"127\.0\.0\.1:9"):
            list_groups(settings, timeout_s=1.0)
        with pytest.raises(BrokerAwayError, match=r"127\.0\.0\.1:9"):
            asyncio.run(GroupTopics(settings, "any", WORKER).start(timeout_s=1.0))
        assert time.monotonic() - started < DEADLINE_S

    def test_settings_that_librdkafka_refuses_are_named(self) -> None:
        settings = settings_of("127.0.0.1:9", **{"no.such.property": 1})
        with pytest.raises(TopicError, match=r"no\.such\.property"):
            read_group(settings, "any")

    async def test_an_outage_is_two_lines_in_the_log_and_reading_and_writing_go_on(
        self, group_id: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        caplog.set_level(logging.INFO, "airflow_provider")
        with LocalBroker(start_timeout_s=DEADLINE_S) as broker:
            settings = settings_of(broker.bootstrap_servers)
            async with GroupTopics(settings, group_id, WORKER) as topics:
                await topics.submit(JOB)
                await topics.catch_up()
                await asyncio.to_thread(broker.kill)
                await eventually(lambda: "can be reached" in caplog.text)
                with pytest.raises(BrokerAwayError, match="waiting for a change"):
                    await topics.wait_for(lambda _jobs, _status: False, timeout_s=1)
                with pytest.raises(BrokerAwayError, match="asking for the ends"):
                    await topics.catch_up(timeout_s=1)
                writing = asyncio.ensure_future(topics.publish_task(task_status(1)))
                await asyncio.to_thread(broker.start)
                await writing
                await topics.wait_for(lambda _, status: TASK in status.tasks, timeout_s=DEADLINE_S)
                await eventually(lambda: "is back" in caplog.text)
        lines = [record.getMessage() for record in caplog.records if record.name.endswith("outage")]
        back = next(number for number, line in enumerate(lines) if "is back after" in line)
        assert (len(lines[:back]), back) == (1, 1)
        assert broker.bootstrap_servers in lines[0]
        assert capfd.readouterr().err == ""


@pytest.mark.thorough  # each run has each right, and refused passwords (test_secured_broker.py)
class TestRights:
    @pytest.fixture(scope="class")
    @classmethod
    def guarded(cls) -> Iterator[LocalBroker]:
        users = " ".join(f'user_{name}="secret-of-{name}"' for name in ("admin", "alice"))
        properties = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.client.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
        }
        with LocalBroker(
            security_protocol="SASL_PLAINTEXT", properties=properties, start_timeout_s=DEADLINE_S
        ) as running:
            yield running

    @staticmethod
    def _as(broker: LocalBroker, user: str, password: str | None = None) -> KafkaSettings:
        return settings_of(
            broker.bootstrap_servers,
            **{
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": password or f"secret-of-{user}",
            },
        )

    @staticmethod
    def _allow(broker: LocalBroker, topic: str, *operations: str) -> None:
        acls = [
            AclBinding(
                ResourceType.TOPIC,
                topic,
                ResourcePatternType.LITERAL,
                "User:alice",
                "*",
                AclOperation[operation],
                AclPermissionType.ALLOW,
            )
            for operation in operations
        ]
        grant(TestRights._as(broker, "admin"), acls)

    async def test_each_missing_right_is_named_with_its_topic(self, guarded: LocalBroker, group_id: str) -> None:
        admin, alice = self._as(guarded, "admin"), self._as(guarded, "alice")
        names = TopicNames.of(group_id)
        with pytest.raises(RightsError, match=f"User:alice has no right to READ on the topic '{group_id}.jobs', "):
            await GroupTopics(alice, group_id).start()
        for topic in names.all:
            self._allow(guarded, topic, "DESCRIBE")
        with pytest.raises(RightsError, match=f"no right to CREATE on the topic '{group_id}"):
            await GroupTopics(alice, group_id, WORKER).start()
        async with GroupTopics(admin, group_id, WORKER) as theirs:
            await theirs.submit(JOB)
            with pytest.raises(RightsError, match=f"no right to READ on the topic '{group_id}.jobs', READ on"):
                await GroupTopics(alice, group_id).start()
            self._allow(guarded, names.jobs, "READ")
            self._allow(guarded, names.status, "READ")
            await self._once_allowed(lambda: _opened(alice, group_id))
            async with GroupTopics(alice, group_id) as topics:
                with pytest.raises(TopicRightsError, match=f"no right to WRITE on the topic '{group_id}.jobs'"):
                    await topics.publish_plan(PLAN)
                await eventually(lambda: "flights" in topics.jobs.jobs)
                await topics.catch_up()
                self._allow(guarded, names.jobs, "WRITE")
                await self._once_allowed(lambda: topics.publish_plan(PLAN))
                await topics.wait_for(lambda jobs, _: "flights" in jobs.plans, timeout_s=DEADLINE_S)

    async def test_a_right_that_is_given_back_is_noticed_though_nothing_is_written(
        self, guarded: LocalBroker, group_id: str
    ) -> None:
        admin, alice = self._as(guarded, "admin"), self._as(guarded, "alice")
        names = TopicNames.of(group_id)
        async with GroupTopics(admin, group_id, WORKER) as theirs:
            await theirs.submit(JOB)
            for topic in names.all:
                self._allow(guarded, topic, "DESCRIBE", "READ")
            await self._once_allowed(lambda: _opened(alice, group_id))
            async with GroupTopics(alice, group_id) as topics:
                await topics.catch_up()
                self._take_away(guarded, names.jobs, "READ")
                await eventually(lambda: isinstance(topics.problem, TopicRightsError))
                self._allow(guarded, names.jobs, "READ")
                await eventually(lambda: topics.problem is None)
                await topics.catch_up()

    @staticmethod
    def _take_away(broker: LocalBroker, topic: str, operation: str) -> None:
        these = AclBindingFilter(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        admin = AdminClient(TestRights._as(broker, "admin").librdkafka())
        for done in admin.delete_acls([these]).values():
            done.result(DEADLINE_S)

    @staticmethod
    async def _once_allowed(act: Callable[[], Awaitable[None]]) -> None:
        """Retry until a granted right is in effect."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                await act()
            except RightsError:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            else:
                return

    async def test_a_wrong_password_is_told_at_once(self, guarded: LocalBroker, group_id: str) -> None:
        settings = self._as(guarded, "alice", "wrong-password")
        with pytest.raises(RefusedError, match=r"(?i)authentication failed.*sasl\.password") as failed:
            await GroupTopics(settings, group_id, WORKER).start(timeout_s=DEADLINE_S)
        assert "wrong-password" not in str(failed.value)

    def test_a_wrong_password_is_told_to_one_shot_calls_too(self, guarded: LocalBroker) -> None:
        settings, began = self._as(guarded, "alice", "wrong-password"), time.monotonic()
        with pytest.raises(RefusedError, match=r"(?i)authentication failed.*sasl\.password"):
            list_groups(settings, timeout_s=10_000)
        assert time.monotonic() - began < DEADLINE_S
