"""The rights in ``docs/security.md`` are enough to coordinate; a missing one is named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Certificates
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from echo_machine import EchoMachine, heartbeat_of
from fleet import without_progress
from secured import ADMIN, PAGE, SecuredBroker, grant, rights_on_the_page, secured_broker
from shard_bench import LAYOUT, QUICK, Asker
from waiting import DEADLINE_S, wait_until

from airflow_provider.cli.main import main
from airflow_provider.group.declarative.coordinator.settings import CoordinatorSettings
from airflow_provider.group.declarative.server.candidates import shard_server
from airflow_provider.group.declarative.server.server import ShardServer
from airflow_provider.integration import one_shot
from airflow_provider.kafka.topics.errors import RightsError
from airflow_provider.state.records import JobDefinition

_ROW = re.compile(r"\| ([A-Z]+) \| (topic|group|transactional id) `(__worker_[a-z*-]+)` \| ([a-z, ]+) \|")
_RIGHTS = _ROW.findall(PAGE.read_text())

Needed = tuple[str, str, str]


def rights_of(role: str) -> list[Needed]:
    return [(operation, kind, name) for operation, kind, name, roles in _RIGHTS if role in roles.split(", ")]


COORDINATORS, MEMBERS = rights_of("coordinator"), rights_of("member")
OF_GROUPS = rights_on_the_page()
GROUP = "declared"
JOB = JobDefinition(name="job", entry_point="noop:job", config={"seconds": 0.1}, max_tasks=3)


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


PEOPLE = ("inspector", "configurer", "viewer", "nobody")
"""Users who look at and configure groups; the viewer has the rights of an inspector of classic groups."""


@pytest.fixture(scope="module")
def secured(certificates: Certificates) -> Iterator[SecuredBroker]:
    users = ["coordinator", "member", *PEOPLE, *map(without, COORDINATORS)]
    with secured_broker(certificates, users, properties=QUICK) as running:
        acls = [acl_of("coordinator", right) for right in COORDINATORS]
        acls += [acl_of("member", right) for right in MEMBERS]
        acls += [acl_of(without(one), right) for one in COORDINATORS for right in COORDINATORS if right != one]
        acls += [acl_of(role, right) for role in ("inspector", "configurer") for right in rights_of(role)]
        grant(running.settings(ADMIN), acls)
        on_topics = [right for right in OF_GROUPS["worker"] if right.resource == "topic"]
        running.allow(("member", right, GROUP) for right in on_topics)
        running.allow(("coordinator", right, GROUP) for right in OF_GROUPS["viewer"])
        running.allow((who, right, GROUP) for who in ("inspector", "viewer") for right in OF_GROUPS["inspector"])
        server = ShardServer(running.settings(ADMIN), EchoMachine, make=LAYOUT)
        server.start()  # this makes the topics
        wait_until(lambda: server.served, "shards are served")
        server.close()
        yield running


def test_the_rights_of_the_page_are_enough(secured: SecuredBroker, group_id: str) -> None:
    assert len(COORDINATORS) == 6
    assert len(MEMBERS) == 2
    secured.allow(("coordinator", right, group_id) for right in OF_GROUPS["viewer"])
    server = ShardServer(secured.settings("coordinator"), EchoMachine)
    server.start()
    try:
        wait_until(lambda: len(server.served) == LAYOUT.shards, "all shards are served")
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
        wait_until(lambda: said in caplog.text, said)
        if kind != "transactional id":
            assert isinstance(server.refusal, RightsError)
    finally:
        server.close()


def test_with_the_rights_of_the_page_a_group_works_is_seen_and_configured(
    secured: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def connection(user: str) -> tuple[str, str]:
        path = tmp_path / f"{user}.json"
        path.write_text(json.dumps(secured.extra(user)))
        return "--kafka-config", str(path)

    one_shot.submit_job(secured.settings(ADMIN), GROUP, JOB)
    server = shard_server(secured.settings("coordinator"), CoordinatorSettings())
    server.start()
    try:
        wait_until(lambda: len(server.served) == LAYOUT.shards, "all shards are served")
        protocol = ("--group-protocol", "connect", "--coordinators", "dedicated")
        worker = subprocess.run(
            [
                *(sys.executable, "-m", "airflow_provider.cli.main", "worker", GROUP, "--worker", "w1"),
                *("--runner", "noop", "--until", "drained", *protocol, *connection("member")),
            ],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert (worker.returncode, "drained" in worker.stdout) == (0, True), worker.stderr
        assert "right" not in worker.stderr
        configure = ("groups", "configure", GROUP, "--session-timeout-ms", "90000")
        assert main([*configure, *connection("configurer")]) == 0
        assert main([*configure, *connection("nobody")]) == 2
        assert "User:nobody has no right to WRITE on the topic '__worker_requests'" in capsys.readouterr().err
    finally:
        server.close()
    assert main(["groups", "describe", GROUP, *connection("inspector")]) == 0
    said = capsys.readouterr()
    assert not without_progress(said.err)
    assert said.out.splitlines()[-2:] == ["Configuration", "  connect.session.timeout.ms=90000"]
    assert main(["groups", "describe", GROUP, *connection("viewer")]) == 0
    said = capsys.readouterr()
    assert "may be missing or incomplete: User:viewer has no right to READ on the topic '__worker_offsets'" in said.err
    assert "Configuration" not in said.out
