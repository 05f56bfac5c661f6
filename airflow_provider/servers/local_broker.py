"""A real one-node Kafka broker on this machine, for demos and tests: KRaft, loopback only, gone when its owner is.

It is Kafka's own server, started from its jars; nothing here imitates a broker.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_provider.servers.jars import default_cache, fetch_jars
from airflow_provider.servers.java import ClassArchive, find_java
from airflow_provider.servers.own_process import HOST, PortError, hold_ports, require_free, tail
from airflow_provider.servers.own_server import START_S, NotStartedError, OwnServer
from airflow_provider.servers.security import BrokerSecurity

KAFKA_VERSION: Final = "4.3.1"
# Kafka logs through SLF4J and its jars bring no place for the log to go.
COORDINATES: Final = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")

_STARTED: Final = "Kafka Server started"
_JVM: Final = (
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # a third off the time to start; nobody measures this broker's throughput
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",  # says _STARTED
)
_PROPERTIES: Final[Mapping[str, object]] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "inter.broker.listener.name": "INTERNAL",
    "controller.listener.names": "CONTROLLER",
    # One node holds everything once.
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    # Fewer logs to open: the first group is ready sooner.
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.num.partitions": 4,
    # Tests form groups all the time and cannot wait for members that might come.
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 500,
    # Who coordinates declarative groups is replaced before sessions of their members end: Kafka's 45 s are longer.
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    # After a kill the controller holds the old broker for alive until its session ends.
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    # By default an idle controller writes twice a second.
    "metadata.max.idle.interval.ms": 0,
}


class BrokerStartError(NotStartedError):
    """The broker did not come up; the message carries the end of its log."""


class LocalBroker(OwnServer):
    """A one-node Kafka broker in a process of its own.

    At its end its data are removed, unless ``data`` names a folder. Killed and started again, it has the same address
    and data.

    :param port: where clients connect; a free one by default
    :param data: the folder for the broker's data and log; a temporary one by default
    :param security_protocol: what the clients' listener speaks: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; the
        settings that go with it (``ssl.*``, ``sasl.*``, ``listener.name.client.*``) are given as ``properties``
    :param security: instead of ``security_protocol``: TLS, passwords and ACLs on all listeners
    :param properties: further or other settings of ``server.properties``
    :param cache: where the jars are kept
    :param start_timeout_s: how long the broker may take to start, once its jars are there
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        data: Path | None = None,
        security_protocol: str = "PLAINTEXT",
        security: BrokerSecurity | None = None,
        properties: Mapping[str, object] | None = None,
        cache: Path | None = None,
        start_timeout_s: float = START_S,
    ) -> None:
        folder = data.absolute() if data else Path(tempfile.mkdtemp(prefix="cospark-broker-"))
        super().__init__(
            "the broker", folder, "broker.log", keeps_folder=data is not None, not_started=BrokerStartError
        )
        self._security = security
        self._security_protocol = security.security_protocol if security else security_protocol
        self._properties = {**(security.properties() if security else {}), **(properties or {})}
        self._cache = cache or default_cache()
        self._start_timeout_s = start_timeout_s
        self._held = hold_ports(2 if port else 3)
        self._internal_port, self._controller_port, *free = (held.number for held in self._held)
        self._client_port = port or free[0]

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self._client_port}"

    def start(self) -> None:
        """Start the broker and wait until it serves clients. The first start on a machine fetches the jars.

        :raises MissingPrerequisiteError: there is no suitable Java or PySpark
        :raises JarsUnavailableError: the jars could not be fetched
        :raises BrokerStartError: the broker ended or took too long
        """
        if self.pid is not None:
            return
        self.kill()  # if it ended by itself, its watcher still runs
        try:
            require_free(self._client_port)
        except PortError as taken:
            raise BrokerStartError(str(taken)) from taken
        java, class_path = self._prepare()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._close_at_exit()
        self._write_properties()
        if not (self._folder / "data" / "meta.properties").exists():
            self._format([*java, *self._archive.options(), "-cp", class_path])
        options = self._archive.options(write_to=self._written_archive)
        command = [*java, *options, "-cp", class_path, "kafka.Kafka", str(self._folder / "server.properties")]
        sign = f'"{_STARTED}" in its log'
        self._run(command, lambda log: _STARTED in log, sign=sign, limit_s=self._start_timeout_s)

    def stop(self, timeout_s: float = 30.0) -> None:
        """End the broker in order, or by force if that takes longer than ``timeout_s``. Its data stay."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
            self._archive.keep(self._written_archive)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def _prepare(self) -> tuple[list[str], str]:
        """How to call Java, and the class path."""
        java = find_java()
        class_path = os.pathsep.join(map(str, fetch_jars(*COORDINATES, cache=self._cache)))
        self._archive = ClassArchive.of(java, class_path, cache=self._cache)
        return [str(java), *_JVM], class_path

    @property
    def _written_archive(self) -> Path:
        return self._folder / "classes.jsa"

    def _write_properties(self) -> None:
        listeners = {"CLIENT": self._client_port, "INTERNAL": self._internal_port, "CONTROLLER": self._controller_port}
        own = "SSL" if self._security else "PLAINTEXT"
        protocols = {"CLIENT": self._security_protocol, "INTERNAL": own, "CONTROLLER": own}
        addresses = {name: f"{name}://{HOST}:{port}" for name, port in listeners.items()}
        properties = {
            **_PROPERTIES,
            "log.dirs": self._folder / "data",
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": f"{addresses['CLIENT']},{addresses['INTERNAL']}",
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
            **self._properties,
        }
        lines = (f"{name}={_escaped(value)}\n" for name, value in properties.items())
        _write_private(self._folder / "server.properties", "".join(lines))

    def _format(self, java: list[str]) -> None:
        # In a file: anybody on this machine can see the arguments of a process, and there may be passwords among them.
        arguments = self._folder / "format.arguments"
        users = self._security.format_arguments() if self._security else ()
        lines = ("--cluster-id", _cluster_id(), "--config", str(self._folder / "server.properties"), *users)
        _write_private(arguments, "".join(f"{line}\n" for line in lines))
        try:
            done = subprocess.run(  # noqa: S603
                [*java, "kafka.tools.StorageTool", "format", f"@{arguments}"],
                capture_output=True,
                text=True,
                timeout=self._start_timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise BrokerStartError(
                f"the broker has not started: waited {self._start_timeout_s:g} s for {self._folder} to be formatted",
                late=True,
            ) from late
        finally:
            arguments.unlink()
        if done.returncode != 0:
            raise BrokerStartError(f"could not format {self._folder}:\n{tail(done.stdout + done.stderr)}")


def _cluster_id() -> str:
    # A Kafka id is 16 bytes in base64; one that starts with a dash would be taken for an option.
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


def _write_private(path: Path, text: str) -> None:
    """Write what nobody else may read: keys and passwords."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)


def _escaped(value: object) -> str:
    """As Java reads it from such a file, which is Latin-1 to it: it knows JSON's escapes."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return json.dumps(text)[1:-1]
