"""The rights of ``docs/security.md`` are enough to coordinate; what is lacking is named."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from certificates import Certificates
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from echo_machine import EchoMachine, heartbeat_of
from secured import ADMIN, PAGE, SecuredBroker, grant, secured_broker
from shard_bench import LAYOUT, QUICK, Asker, until

from airflow_provider.shards.server import ShardServer
from airflow_provider.topics.errors import RightsError

_ROW = re.compile(r"\| ([A-Z]+) \| (topic|group|transactional id) `(__worker_[a-z*-]+)` \| (member|coordinator) \|")
RIGHTS = _ROW.findall(PAGE.read_text())
COORDINATORS = [(operation, kind, name) for operation, kind, name, role in RIGHTS if role == "coordinator"]
MEMBERS = [(operation, kind, name) for operation, kind, name, role in RIGHTS if role == "member"]

Needed = tuple[str, str, str]


def without(right: Needed) -> str:
    return "without-" + "-".join(right).replace(" ", "-").replace("*", "any")


def acl_of(user: str, right: Needed) -> AclBinding:
    operation, kind, name = right
    return AclBinding(
        ResourceType[kind.upper().replace(" ", "_")],
        name.rstrip("*"),
        ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[SecuredBroker]:
    users = ["coordinator", "member", *map(without, COORDINATORS)]
    with secured_broker(certificates, users, properties=QUICK) as running:
        acls = [acl_of("coordinator", right) for right in COORDINATORS]
        acls += [acl_of("member", right) for right in MEMBERS]
        acls += [acl_of(without(one), right) for one in COORDINATORS for right in COORDINATORS if right != one]
        grant(running.settings(ADMIN), acls)
        server = ShardServer(running.settings(ADMIN), EchoMachine, make=LAYOUT)
        server.start()  # it makes the topics
        until(lambda: server.served, "shards are served")
        server.close()
        yield running


def test_the_rights_of_the_page_are_enough(secured: SecuredBroker, group_id: str) -> None:
    assert len(COORDINATORS) == 6
    assert len(MEMBERS) == 2
    server = ShardServer(secured.settings("coordinator"), EchoMachine)
    server.start()
    try:
        until(lambda: len(server.served) == LAYOUT.shards, "all shards are served")
        asker = Asker(secured.settings("member").librdkafka())
        assert asker.ask(heartbeat_of(group_id)).body.error_code == 0
        asker.close()
    finally:
        server.close()


@pytest.mark.parametrize("right", COORDINATORS, ids=without)
def test_a_right_that_is_lacking_is_named(
    secured: SecuredBroker, right: Needed, caplog: pytest.LogCaptureFixture
) -> None:
    operation, kind, name = right
    server = ShardServer(secured.settings(without(right)), EchoMachine)
    server.start()
    try:
        said = f"User:{without(right)} has no right to {operation} on the {kind} '{name.rstrip('*')}"
        until(lambda: said in caplog.text, said)
        if kind != "transactional id":
            assert isinstance(server.refusal, RightsError)
    finally:
        server.close()
