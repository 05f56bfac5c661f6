"""A password is only in the connection: in no log, record, XCom, table or process argument."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from names import SECRET_GROUP, TRIED, USER
from searching import ProcessWatch, Secret
from secured import ADMIN, SecuredBroker
from waiting import DEADLINE_S

from airflow_provider.group.live.shared import reach
from airflow_provider.integration import one_shot
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.group_requests.connections import Connections
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.topics.errors import RefusedError
from airflow_provider.state.records import JobDefinition, TopicNames
from demo.airflow import LocalAirflow

REFUSED_TASKS = ("worker", "submit", "deferred", "poking")


def files_with(secret: Secret, folder: Path) -> dict[str, list[str]]:
    """The files below the folder that have the secret, and in which form."""
    found = {
        str(file.relative_to(folder)): secret.found_in(file.read_bytes())
        for file in folder.rglob("*")
        if file.is_file()
    }
    return {name: forms for name, forms in found.items() if forms}


def records_of(secured: SecuredBroker) -> Iterator[bytes]:
    """Keys and values in the group's topics."""
    consumer = Consumer(
        {**secured.extra(ADMIN), "group.id": "none", "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    )
    topics = TopicNames.of(SECRET_GROUP).all
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    left = set(topics)
    while left:
        record = consumer.poll(20)
        assert record is not None, f"not read to their ends: {left}"
        if (error := record.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(record.topic())
        else:
            yield from (record.key() or b"", record.value() or b"")
    consumer.close()


def test_the_search_for_a_password_finds_it(right: Secret, tmp_path: Path) -> None:
    plain = right.password.encode()
    for number, form in enumerate(
        [
            plain,
            b"x" + base64.b64encode(b"user:" + plain),
            base64.urlsafe_b64encode(b"\0user\0" + plain + b"."),
            base64.b64encode(plain),
            f"kafka://user:{quote(right.password, safe='')}@host".encode(),
            json.dumps({"password": right.password}).encode(),
            repr({"sasl.password": right.password}).encode(),
        ]
    ):
        (tmp_path / str(number)).write_bytes(b"before" + form + b"after")
    assert len(files_with(right, tmp_path)) == number + 1


@pytest.mark.thorough
def test_airflow_keeps_no_password_anywhere(
    airflow: LocalAirflow, right: Secret, wrong: Secret, secured: SecuredBroker, watch: ProcessWatch
) -> None:
    """A worker that defers and comes back, sensors and an operator, also with refused passwords, at level DEBUG."""
    api = airflow.api
    api.wait_for_dag("secret_worker")
    run = api.trigger("secret_worker")
    refused = api.trigger("secret_refused")
    for task in ("worker", "deferred"):
        api.wait_for_task("secret_worker", run, task, states=("deferred",), where=lambda seen: bool(seen.triggerer_job))
    # The arguments of triggers are in the database while they run.
    database = airflow.home / "airflow.db"
    stored = b"".join(file.read_bytes() for file in airflow.home.glob("airflow.db*"))
    assert b"kafka_conn_id" in stored, "not encrypted, or the search would find nothing"
    assert not right.found_in(stored)

    submitted = api.trigger("secret_job")
    api.wait_for_run("secret_job", submitted)
    api.wait_for_run("secret_worker", run)
    api.wait_for_run("secret_refused", refused, states=("failed",))
    for task in REFUSED_TASKS:
        instance = api.task_instance("secret_refused", refused, task)
        log = api.log(instance)
        assert instance.state == "failed"
        assert "check sasl.username, sasl.password and sasl.mechanism of the connection" in log, f"{task}: {log}"
    summary = api.xcom(api.task_instance("secret_worker", run, "worker"))
    assert summary["finished"] == [["naps", 0], ["naps", 1]]

    assert database.stat().st_size > 100_000
    topics = list(airflow.home.rglob("*.log"))
    assert any(b"debug" in log.read_bytes().lower() for log in topics)
    assert files_with(right, airflow.home) == {}
    assert files_with(wrong, airflow.home) == {}
    records = b"\n".join(records_of(secured))
    assert b"job:naps" in records
    assert b"worker:secret_worker.worker" in records
    assert not right.found_in(records)
    watch.check(right, wrong)


WORKER = ("worker", TRIED, "--runner", "noop", "--until", "drained")
LOOKING = [
    ("jobs", "list", TRIED),
    ("status", TRIED, "--once"),
    ("groups", "list"),
    ("groups", "describe", TRIED),
]


@pytest.mark.parametrize("known", [True, False], ids=["let-in", "refused"])
def test_the_command_line_shows_no_password(
    known: bool, secured: SecuredBroker, right: Secret, wrong: Secret, watch: ProcessWatch, tmp_path: Path
) -> None:
    config = tmp_path / "connection.json"
    secret = right if known else wrong
    config.write_text(json.dumps(secured.extra(USER, **{"sasl.password": secret.password})))
    job = JobDefinition(name="done", entry_point="jobs:Nap", config={"seconds": 0}, run_key=str(known))
    one_shot.submit_job(secured.settings(USER), TRIED, job)

    def start(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "airflow_provider.cli.main", *command, "--kafka-config", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def check(process: subprocess.Popen[bytes]) -> None:
        told, _ = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode == 0) is known, told.decode()
        assert known or b"check sasl.username, sasl.password" in told, told.decode()
        assert not secret.found_in(told)

    check(start(WORKER))  # the first, as it makes the broker create the topic in which it keeps groups
    for process in [start(command) for command in LOOKING]:
        check(process)
    watch.check(right, wrong)


def test_the_processes_that_start_the_broker_have_no_password_in_their_arguments(
    watch: ProcessWatch, secured: SecuredBroker
) -> None:
    """The broker has to know the users."""
    assert any(b"kafka.tools.StorageTool" in arguments for arguments in watch.seen)
    watch.check(*map(Secret, secured.passwords.values()))


def test_no_log_line_has_a_password_at_any_level(
    secured: SecuredBroker, right: Secret, wrong: Secret, caplog: pytest.LogCaptureFixture
) -> None:
    """Without Airflow, which masks passwords."""
    job = JobDefinition(name="logged", entry_point="jobs:Nap", config={"seconds": 0})
    refused = secured.settings(USER, **{"sasl.password": wrong.password})
    with caplog.at_level(logging.DEBUG):
        asyncio.run(reach(secured.settings(USER)))
        one_shot.submit_job(secured.settings(USER), TRIED, job)
        with pytest.raises(TransportError, match="SaslAuthenticationFailed") as by_group:
            asyncio.run(reach(refused))
        with pytest.raises(RefusedError) as by_topics:
            one_shot.submit_job(refused, TRIED, job)
    told = [f"{record.getMessage()} {record.args} {record.exc_text}" for record in caplog.records]
    told += ["".join(traceback.format_exception(each.value)) for each in (by_group, by_topics)]
    assert any("aiokafka" in record.name for record in caplog.records)
    for secret in (right, wrong):
        assert not secret.found_in("\n".join(told).encode())


async def test_nothing_shows_a_password_when_it_is_printed(secured: SecuredBroker, right: Secret) -> None:
    settings = secured.settings(USER)
    shown = [settings, GroupTransport(settings), Connections(settings), secured.broker, secured.broker._security]
    for value in shown:
        assert not right.found_in(f"{value!r} {value}".encode())
    assert not right.found_in(repr([*shown, {settings: shown}]).encode())
