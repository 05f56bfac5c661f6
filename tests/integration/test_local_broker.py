"""The local broker for its users: it starts, keeps its data, says what is missing, and never outlives its owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from waiting import DEADLINE_S, SLOWNESS, wait_until

from airflow_provider.servers import jars
from airflow_provider.servers.jars import JarsUnavailableError, default_cache, fetch_jars
from airflow_provider.servers.java import ClassArchive, MissingPrerequisiteError, find_java
from airflow_provider.servers.local_broker import COORDINATES, BrokerStartError, LocalBroker


def is_running(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def topics(broker: LocalBroker) -> set[str]:
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    return set(client.list_topics(timeout=DEADLINE_S).topics)


def create_topic(broker: LocalBroker, name: str) -> None:
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for created in client.create_topics([NewTopic(name, 1, 1)]).values():
        created.result(DEADLINE_S)


@pytest.mark.thorough
def test_a_killed_broker_comes_back_at_the_same_address_with_its_data() -> None:
    with LocalBroker(start_timeout_s=DEADLINE_S) as broker:
        create_topic(broker, "kept")
        address = broker.bootstrap_servers
        broker.kill()
        assert broker.pid is None
        broker.start()
        assert broker.bootstrap_servers == address
        assert "kept" in topics(broker)


def test_a_broker_that_died_can_be_started_again_and_leaves_no_process_behind() -> None:
    others = set(psutil.Process().children())
    with LocalBroker(start_timeout_s=DEADLINE_S) as broker:
        assert broker.pid is not None
        started = set(psutil.Process().children()) - others
        os.kill(broker.pid, signal.SIGKILL)
        wait_until(lambda: broker.pid is None)
        broker.start()
        assert broker.pid is not None
        assert started
        assert not [process for process in started if process.is_running()]


@pytest.mark.thorough
def test_a_named_folder_outlives_the_broker_and_a_temporary_one_does_not(tmp_path: Path) -> None:
    named = tmp_path / "José's data \\ 数据"
    with LocalBroker(data=named, start_timeout_s=DEADLINE_S) as broker:
        create_topic(broker, "kept")
    with LocalBroker(data=named, start_timeout_s=DEADLINE_S) as broker:
        assert "kept" in topics(broker)
    assert list(tmp_path.iterdir()) == [named]
    with LocalBroker(start_timeout_s=DEADLINE_S) as broker:
        log = broker.log_path
        assert log.exists()
    assert not log.parent.exists()


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    broker = LocalBroker(properties={"log.retention.hours": "many"}, start_timeout_s=DEADLINE_S)
    with pytest.raises(BrokerStartError, match=r"log\.retention\.hours"):
        broker.__enter__()
    assert broker.pid is None
    assert not broker.log_path.parent.exists()


def test_a_broker_that_is_too_slow_is_ended() -> None:
    broker = LocalBroker(start_timeout_s=0.1)
    with pytest.raises(BrokerStartError, match=r"0\.1 s"):
        broker.__enter__()
    assert broker.pid is None
    assert not broker.log_path.parent.exists()


def test_the_broker_dies_with_a_killed_owner(tmp_path: Path) -> None:
    program = (
        "import signal; from pathlib import Path; from airflow_provider.servers.local_broker import LocalBroker\n"
        f"with LocalBroker(data=Path({str(tmp_path)!r}), start_timeout_s={DEADLINE_S}) as broker:\n"
        "    print(broker.pid, flush=True); signal.pause()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        broker_pid = int(owner.stdout.readline())
        assert is_running(broker_pid)
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_running(broker_pid))


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerStartError, match=rf"127\.0\.0\.1:{port}: Address already in use"):
            LocalBroker(port=port, start_timeout_s=DEADLINE_S).__enter__()


def test_the_command_shows_where_the_broker_is_and_stops_it_when_told_to(tmp_path: Path) -> None:
    program = (
        "import argparse, sys; from airflow_provider.cli.trials import broker; parser = argparse.ArgumentParser();"
        "broker.add_arguments(parser); sys.exit(broker.run(parser.parse_args()))"
    )
    command = [sys.executable, "-c", program, "--data", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cospark:
        assert cospark.stdout is not None
        for line in cospark.stdout:
            if "COSPARK_BOOTSTRAP_SERVERS=" in line:
                servers = line.partition("=")[2].strip()
                break
        client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        assert len(client.list_topics(timeout=DEADLINE_S).brokers) == 1
        cospark.send_signal(signal.SIGTERM)
        assert cospark.wait(DEADLINE_S) == 0
    host, _, port = servers.partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


@pytest.mark.usefixtures("broker")
def test_what_was_fetched_is_not_fetched_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no Java: nothing can be fetched
    said: list[str] = []
    jars = fetch_jars(*COORDINATES, cache=default_cache(), report=said.append)
    names = {jar.name for jar in jars}
    assert any(name.startswith("org.apache.kafka_kafka_2.13-4.") for name in names)
    assert any(name.startswith("scala-library-2.13.") for name in names)
    assert said == []


def test_jars_that_cannot_be_had_are_named_and_leave_nothing_behind(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(JarsUnavailableError, match=r"could not fetch org\.example\.nothing:here:1"):
        fetch_jars("org.example.nothing:here:1", cache=tmp_path, report=said.append)
    assert said == [f"fetching org.example.nothing:here:1 into {tmp_path} (once)"]
    assert not (tmp_path / "jars").exists()


def test_fetching_gives_up_on_a_silent_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    silent = tmp_path / "bin" / "spark-submit"
    silent.parent.mkdir()
    silent.write_text("#!/bin/sh\necho resolving\nexec sleep 86400\n")
    silent.chmod(0o755)
    monkeypatch.setattr(jars, "pyspark_home", lambda: tmp_path)
    monkeypatch.setattr(jars, "_DOWNLOAD_TIMEOUT_S", 3 * SLOWNESS)
    with pytest.raises(JarsUnavailableError, match=r"Is there a network\?[^$]*resolving"):
        fetch_jars("any:thing:1", cache=tmp_path / "cache", report=lambda _: None)


def test_loaded_classes_are_written_once_and_then_used(tmp_path: Path) -> None:
    archive = ClassArchive.of(find_java(), "a.jar", cache=tmp_path)
    written = tmp_path / "written"
    assert f"-XX:ArchiveClassesAtExit={written}" in archive.options(write_to=written)
    archive.keep(written)  # a JVM that was killed has written nothing
    assert archive.options() == ()
    written.write_bytes(b"classes")
    archive.keep(written)
    assert f"-XX:SharedArchiveFile={archive.path}" in archive.options(write_to=written)
    assert archive.path.read_bytes() == b"classes"
    assert ClassArchive.of(find_java(), "other.jar", cache=tmp_path).path != archive.path


def test_without_java_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPrerequisiteError, match=r"Java 17 or newer is needed.*no `java` on the PATH.*Install"):
        find_java()


def test_an_old_java_is_refused_by_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingPrerequisiteError, match="is version 8"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", os.devnull)
    with pytest.raises(MissingPrerequisiteError, match=r"no bin/java in it"):
        find_java()
