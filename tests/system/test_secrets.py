"""A password is only in the connection: in no log, record, XCom, table or process argument."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

import psutil
import pytest
from certificates import Certificates
from confluent_kafka import Consumer, KafkaError, TopicPartition
from secured import ADMIN, SecuredBroker, rights_on_the_page, secured_broker
from waiting import DEADLINE_S

from airflow_provider.common import one_shot
from airflow_provider.group.shared import reach
from airflow_provider.kafka.errors import TransportError
from airflow_provider.kafka.transport import GroupTransport
from airflow_provider.kafka.wire.connections import Connections
from airflow_provider.records import JobDefinition, TopicNames
from airflow_provider.topics.errors import RefusedError
from demo.airflow import LocalAirflow

DAGS = Path(__file__).parent / "secret_dags"
GROUP = "secret"  # group of the DAGs
TRIED = "tried"  # group of the command line
USER = "airflow"
REFUSED_TASKS = ("worker", "submit", "deferred", "poking")


@dataclass(frozen=True, slots=True)
class Secret:
    """A password in every form in which it could appear."""

    password: str

    @property
    def forms(self) -> dict[str, bytes]:
        plain = self.password.encode()
        escaped = self.password.replace("/", "\\/").replace("&", "\\u0026")
        forms = {
            "plain": plain,
            "URL-quoted": quote(self.password, safe="").encode(),
            "URL-quoted except slashes": quote(self.password).encode(),
            "as in a form": quote_plus(self.password).encode(),
            "in JSON": escaped.encode(),
            "in hexadecimal": plain.hex().encode(),
        }
        for before in range(3):  # inside a longer text, its base64 depends on where it starts
            encoded = base64.b64encode(b"\0" * before + plain)[4 if before else 0 : -4]
            forms[f"in base64 ({before})"] = encoded
            forms[f"in base64 for URLs ({before})"] = encoded.translate(bytes.maketrans(b"+/", b"-_"))
        return forms

    def found_in(self, text: bytes) -> list[str]:
        return [name for name, form in self.forms.items() if form in text]


def new_password() -> str:
    """A password that looks different in each form, and that every part of Kafka accepts."""
    return f"{secrets.token_urlsafe(18)}/+%&~{secrets.token_urlsafe(6)}"


class ProcessWatch(threading.Thread):
    """Reads the arguments of every process on this machine.

    It reads those of young processes again and again, because they may still exec another program.
    """

    YOUNG_S = 2.0

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[bytes] = set()
        self._end = threading.Event()

    def run(self) -> None:
        young_until: dict[int, float] = {}
        all_at = 0.0
        while not self._end.wait(0.02):
            now = time.monotonic()
            young_until = {pid: young_until.get(pid, now + self.YOUNG_S) for pid in psutil.pids()}
            if every := now >= all_at:
                all_at = now + self.YOUNG_S
            for pid, until in young_until.items():
                if every or now < until:
                    self._read(Path(f"/proc/{pid}/cmdline"))

    def _read(self, arguments: Path) -> None:
        with suppress(OSError):  # it has ended
            self.seen.add(arguments.read_bytes())

    def end(self) -> None:
        self._end.set()
        self.join()

    def check(self, *unseen: Secret) -> None:
        arguments = b"\n".join(self.seen)
        assert b"kafka.Kafka" in arguments
        for secret in unseen:
            assert not secret.found_in(arguments)


@pytest.fixture(scope="module")
def watch() -> Iterator[ProcessWatch]:
    thread = ProcessWatch()
    thread.start()
    yield thread
    thread.end()


@pytest.fixture(scope="module")
def secured(certificates: Certificates, watch: ProcessWatch) -> Iterator[SecuredBroker]:
    with secured_broker(certificates, {USER: new_password()}) as broker:
        rights = {right for role in rights_on_the_page().values() for right in role}
        broker.allow([(USER, right, group) for right in rights for group in (GROUP, TRIED)])
        yield broker


@pytest.fixture(scope="module")
def right(secured: SecuredBroker) -> Secret:
    return Secret(secured.passwords[USER])


@pytest.fixture(scope="module")
def wrong() -> Secret:
    """A password that the broker does not know; it may still be somebody's."""
    return Secret(new_password())


@pytest.fixture(scope="module")
def airflow(start_airflow: Callable[..., LocalAirflow], secured: SecuredBroker, wrong: Secret) -> LocalAirflow:
    extras = {"secured": secured.extra(USER), "refused": secured.extra(USER, **{"sasl.password": wrong.password})}
    return start_airflow(
        [DAGS],
        connections={name: json.dumps({"conn_type": "kafka", "extra": extra}) for name, extra in extras.items()},
        env={
            "AIRFLOW__LOGGING__LOGGING_LEVEL": "DEBUG",
            # A password must not be hidden from the search, neither masked nor encrypted. (In the logs of tasks Airflow
            # masks the connections that it has handed out anyway: another test checks what our code logs by itself.)
            "AIRFLOW__CORE__HIDE_SENSITIVE_VAR_CONN_FIELDS": "False",
            "AIRFLOW__CORE__FERNET_KEY": "",
        },
    )


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
    topics = TopicNames.of(GROUP).all
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
