"""Converts an Airflow connection of type ``kafka`` to the settings of both Kafka clients.

The connection's extra is librdkafka's configuration, as in the apache-kafka provider. librdkafka, which reads and
writes the topics, takes it as it is, but for what belongs to its clients here
(:mod:`.client_settings.ignored_settings`). For aiokafka, which the group protocol uses, it is translated here. A
setting that makes a connection safer is either translated or refused, never ignored. Settings that would run code are
refused, because a user who may edit a connection is not necessarily allowed to run code where it is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider.kafka.client_settings.ignored_settings import OWN_SETTINGS
from airflow_provider.kafka.client_settings.risks import Risk, warn_once
from airflow_provider.kafka.client_settings.tls import Value, build_ssl_context, refuse_unsupported_tls, risks_of_tls

_CLIENT_ID: Final = "cospark"
# A name, an IPv4 address, or an IPv6 address in brackets (without a port, the brackets may be missing): the forms that
# both clients understand.
_SERVER: Final = re.compile(
    r"(?:\[[^\s\[\]]+\]|[^\s:/\[\]]+)(?::(?P<port>[0-9]{1,5}))?|[0-9A-Fa-f.]*(?::[0-9A-Fa-f.]*){2,}"
)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_DEFAULT_REQUEST_TIMEOUT_MS: Final = 30_000
# Reads and writes wait for 30 s. So there is time to open a new connection if the network has dropped an idle one.
_TOPICS_REQUEST_TIMEOUT_MS: Final = 15_000
# Names of Python functions, which the apache-kafka provider resolves for its own hooks. They are ignored here.
_CALLBACKS: Final = frozenset({"error_cb", "stats_cb", "throttle_cb", "on_commit", "on_delivery", "logger"})
_LOADS: Final = "loads native code into the process that uses the connection"
_REACHES: Final = "sends requests to any server that it names, and may read files to send them there"
_WRITES: Final = "writes files"
# librdkafka's names. A name that ends with a dot stands for all names that begin with it.
_HARMFUL: Final = {
    "plugin.library.paths": _LOADS,
    "ssl.engine.": _LOADS,
    "ssl.providers": _LOADS,
    "sasl.kerberos.kinit.cmd": "runs a program",
    "sasl.oauthbearer.": _REACHES,
    "offset.store.": _WRITES,
    "internal.termination.signal": "sends the process a signal",
}
_ALIASES: Final = (("bootstrap.servers", "metadata.broker.list"), ("sasl.mechanism", "sasl.mechanisms"))


class SettingsError(ValueError):
    """A connection can't be used. The message names the connection, the key, and what to do."""

    def __init__(self, conn_id: str, key: str, problem: str) -> None:
        super().__init__(f"connection {conn_id!r}: {key}: {problem}" if key else f"connection {conn_id!r}: {problem}")
        self.conn_id = conn_id
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """How to reach a Kafka cluster. Equal settings mean the same cluster and the same credentials.

    The ``repr`` shows the servers and the security protocol, but never a value that could be secret.

    :param conn_id: the connection it comes from, for messages
    :param values: librdkafka's configuration
    """

    conn_id: str
    values: tuple[tuple[str, Value], ...]

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any] | str | None, *, conn_id: str) -> KafkaSettings:
        """Read a connection's extra.

        :param extra: the extra, parsed by Airflow or as it is stored
        :param conn_id: the connection's id, for messages
        :raises SettingsError: it is not a JSON object, lacks ``bootstrap.servers``, or has a setting that is not
            supported
        """
        config = _parsed(extra, conn_id)
        for key, value in config.items():
            if not isinstance(value, (str, int, float)):
                raise SettingsError(
                    conn_id,
                    key,
                    f"must be a string, a number or a boolean, not {_json_type(value)}: see librdkafka's names",
                )
        settings = cls(
            conn_id=conn_id,
            values=tuple(sorted((key, value) for key, value in config.items() if key not in _CALLBACKS)),
        )
        settings._check()
        warn_once(conn_id, settings.risks())
        return settings

    def __repr__(self) -> str:
        return (
            f"KafkaSettings(conn_id={self.conn_id!r}, bootstrap_servers={self.bootstrap_servers!r}, "
            f"security_protocol={self.security_protocol!r})"
        )

    @property
    def bootstrap_servers(self) -> str:
        """The servers, separated by commas."""
        servers = self._text("bootstrap.servers", "metadata.broker.list")
        return ",".join(server.strip() for server in servers.split(",") if server.strip())

    @property
    def security_protocol(self) -> str:
        """The security protocol, in capitals."""
        return self._text("security.protocol", default="PLAINTEXT").upper()

    @property
    def principal(self) -> str | None:
        """The user as in ACLs. None if the settings do not tell: only the broker knows the user of a certificate."""
        return principal_of(self._set)

    @property
    def client_id(self) -> str:
        """The client id, for the brokers' logs and quotas."""
        return self._text("client.id", default=_CLIENT_ID)

    @property
    def request_timeout_ms(self) -> int:
        """How long to wait for answers. JoinGroup waits longer, because it is not answered immediately."""
        return self._number("socket.timeout.ms", default=_DEFAULT_REQUEST_TIMEOUT_MS)

    @property
    def connect_timeout_ms(self) -> int:
        """How long opening a connection may take."""
        return min(self._number("socket.connection.setup.timeout.ms", default=10_000), self.request_timeout_ms)

    def risks(self) -> Iterator[Risk]:
        """The settings with which others on the network can read or change what is sent."""
        if self._uses_tls:
            yield from risks_of_tls(self._set, self._refuse)
        elif self._uses_sasl:
            yield Risk(
                "security.protocol=SASL_PLAINTEXT",
                "everything is sent in clear text, so others on the network can read and change it"
                + (", and read the password" if self._mechanism == "PLAIN" else ""),
            )

    def librdkafka(self) -> dict[str, Value]:
        """The configuration of confluent-kafka's clients. Each client adds its own settings."""
        reached = {key: value for key, value in self._set.items() if key not in OWN_SETTINGS}
        return {"client.id": _CLIENT_ID, "socket.timeout.ms": _TOPICS_REQUEST_TIMEOUT_MS, **reached}

    def aiokafka(self) -> dict[str, Any]:
        """The keyword arguments of aiokafka's clients and connections. Reads the files with certificates and keys.

        :raises SettingsError: a file can't be read, or is not a certificate or key
        """
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "request_timeout_ms": self.request_timeout_ms,
        }
        if self._uses_tls:
            arguments["ssl_context"] = build_ssl_context(self._set, self._refuse)
        if self._uses_sasl:
            arguments["sasl_mechanism"] = self._mechanism
            arguments["sasl_plain_username"] = self._text("sasl.username")
            arguments["sasl_plain_password"] = self._text("sasl.password")
        return arguments

    def _check(self) -> None:
        self._refuse_harm()
        if not self.bootstrap_servers:
            raise self._refuse(
                "bootstrap.servers", 'is missing: add {"bootstrap.servers": "host:9092"} to the connection\'s extra'
            )
        for server in self.bootstrap_servers.split(","):
            shape = _SERVER.fullmatch(server)
            if shape is None or not 0 < int(shape["port"] or 1) < 2**16:
                raise self._refuse("bootstrap.servers", f"{server!r} must have the shape host:port")
        if self.security_protocol not in _PROTOCOLS:
            raise self._refuse("security.protocol", f"must be one of {', '.join(_PROTOCOLS)}")
        for key in ("socket.timeout.ms", "socket.connection.setup.timeout.ms"):
            if self._number(key, default=1) <= 0:
                raise self._refuse(key, "must be a positive number of milliseconds")
        if self._uses_tls:
            refuse_unsupported_tls(self._set, self._refuse)
        if self._uses_sasl:
            self._check_sasl()
        elif self._get("sasl.mechanism", "sasl.mechanisms") and self._get("security.protocol") is None:
            raise self._refuse(
                "security.protocol",
                "is missing, so sasl.mechanism would be ignored: set SASL_SSL, or SASL_PLAINTEXT without encryption",
            )

    def _refuse_harm(self) -> None:
        """Refuse settings that could do harm, whatever the other settings are. Groups need none of them."""
        for key in self._set:
            for name, harm in _HARMFUL.items():
                if key == name or (name.endswith(".") and key.startswith(name)):
                    raise self._refuse(key, f"is refused, because it {harm}: remove the setting")
        for name, alias in _ALIASES:
            if self._get(alias) not in (None, self._get(name)) and self._get(name) is not None:
                raise self._refuse(alias, f"is another name of {name}, and has another value: remove one of them")

    def _check_sasl(self) -> None:
        # librdkafka's own default is GSSAPI.
        if self._mechanism not in _MECHANISMS:
            raise self._refuse(
                "sasl.mechanism", f"{self._mechanism} is not supported for groups: use one of {', '.join(_MECHANISMS)}"
            )
        for key in ("sasl.username", "sasl.password"):
            if not self._text(key):
                raise self._refuse(key, f"is missing, and {self._mechanism} needs it")

    @property
    def _uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def _uses_sasl(self) -> bool:
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def _mechanism(self) -> str:
        return self._text("sasl.mechanism", "sasl.mechanisms", default="GSSAPI").upper()

    @property
    def _set(self) -> dict[str, Value]:
        """The settings that have a value: Airflow's form stores an empty string for fields that are left empty."""
        return {key: value for key, value in self.values if value != ""}

    def _get(self, *names: str) -> Value | None:
        """The value of the first of these names that is set: librdkafka has aliases."""
        config = self._set
        return next((config[name] for name in names if name in config), None)

    def _text(self, *names: str, default: str = "") -> str:
        value = self._get(*names)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self._refuse(names[0], f"must be a string, not {_json_type(value)}")
        return value

    def _number(self, name: str, *, default: int) -> int:
        value = self._get(name)
        try:
            return default if value is None else int(value)
        except ValueError:
            raise self._refuse(name, "must be a number of milliseconds") from None

    def _refuse(self, key: str, problem: str) -> SettingsError:
        return SettingsError(self.conn_id, key, problem)


def principal_of(config: Mapping[str, Any]) -> str | None:
    """The same as :attr:`KafkaSettings.principal`, from librdkafka's configuration."""
    uses_sasl = str(config.get("security.protocol", "")).upper().startswith("SASL_")
    name = config.get("sasl.username") if uses_sasl else None
    return f"User:{name}" if name else None


def _parsed(extra: Mapping[str, Any] | str | None, conn_id: str) -> Mapping[str, Any]:
    parsed: object = extra
    if isinstance(extra, str):
        try:
            parsed = json.loads(extra or "{}")
        except json.JSONDecodeError as error:
            raise SettingsError(
                conn_id, "", f"the extra is not JSON ({error.msg} at position {error.pos}): {_EXPECTED}"
            ) from None
    if parsed is None:
        return {}
    if not isinstance(parsed, Mapping):
        raise SettingsError(conn_id, "", f"the extra must be a JSON object, not {_json_type(parsed)}: {_EXPECTED}")
    return parsed


_EXPECTED: Final = 'it should look like {"bootstrap.servers": "host:9092"}'


def _json_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
    return "an array"
