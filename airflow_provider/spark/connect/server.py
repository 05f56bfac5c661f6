"""A Spark Connect server as a value. It has no secrets, so it may be written to records and logs."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote, urlsplit

TOKEN_ENV: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of one
SCHEME: Final = "sc://"
DEFAULT_PORT: Final = 15002
DEFAULT_USER: Final = "cospark"
"""A server identifies a session by its user and its id. By default PySpark uses the operating system's user, who may
differ between machines."""

DATABRICKS_CLUSTER: Final = "x-databricks-cluster-id"
"""The header that names one of the clusters of a Databricks workspace."""

_OURS: Final = frozenset({"session_id", "user_agent"})
_SESSIONS: Final = uuid.UUID("b0f1ed5e-0f23-4c0e-8e0e-0d6f7d0a8a41")
_START: Final = "57a27000-"
_BOOLEANS: Final[Mapping[str, bool]] = {"true": True, "false": False}


class ConnectUrlError(ValueError):
    """A URL does not name a usable server. The message does not repeat what may be secret."""


def is_connect(master: str) -> bool:
    """Whether this is the URL of a Spark Connect server, and not that of a Spark master."""
    return master.startswith(SCHEME)


def is_token(text: str) -> bool:
    """Whether the text can be sent as a token: with any other text, gRPC fails as if the server were away."""
    return text.isascii() and (not text or text.isprintable())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A server, and the user of its sessions.

    :param host: in small letters, and an IPv6 address in its short form
    :param user_id: the user that owns the sessions on the server
    :param use_ssl: whether to use TLS
    :param databricks_cluster: the cluster of a Databricks workspace; empty: the host is not a workspace
    """

    host: str
    port: int = DEFAULT_PORT
    user_id: str = DEFAULT_USER
    use_ssl: bool = False
    databricks_cluster: str = ""

    @classmethod
    def parse(cls, url: str) -> ConnectServer:
        """``sc://host:port/;user_id=somebody;use_ssl=true``; all but the host may be left out.

        :raises ConnectUrlError: for anything else
        """
        if not is_connect(url):
            raise ConnectUrlError(f"the URL of a Spark Connect server begins with {SCHEME}")
        address, _, rest = url.removeprefix(SCHEME).partition("/")
        address, _, stray = address.partition(";")
        path, *parameters = rest.split(";")
        if path or stray:
            raise ConnectUrlError("only a slash and parameters may follow the address: sc://host:port/;use_ssl=true")
        host, port = _address(address)
        user_id, use_ssl, cluster = DEFAULT_USER, False, ""
        for name, value in _pairs(parameters):
            if name == "user_id" and value:
                user_id = value
            elif name == "use_ssl" and value.lower() in _BOOLEANS:
                use_ssl = _BOOLEANS[value.lower()]
            elif name == DATABRICKS_CLUSTER and value:
                cluster = value
            else:
                raise ConnectUrlError(_refusal(name))
        return cls(host=host, port=port, user_id=user_id, use_ssl=use_ssl, databricks_cluster=cluster)

    @property
    def address(self) -> str:
        """The host and the port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The inverse of :meth:`parse`."""
        return f"{SCHEME}{self.address}/;{self._user};{self._tls}{self._cluster}"

    def __str__(self) -> str:
        """The shortest URL that is parsed as this server."""
        user = f";{self._user}" if self.user_id != DEFAULT_USER else ""
        tls = f";{self._tls}" if self.use_ssl else ""
        parameters = f"{user}{tls}{self._cluster}"
        return f"{SCHEME}{self.address}{'/' if parameters else ''}{parameters}"

    @property
    def _user(self) -> str:
        return f"user_id={quote(self.user_id, safe='')}"

    @property
    def _tls(self) -> str:
        return f"use_ssl={str(self.use_ssl).lower()}"

    @property
    def _cluster(self) -> str:
        return f";{DATABRICKS_CLUSTER}={quote(self.databricks_cluster, safe='')}" if self.databricks_cluster else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSettings:
    """How to use a server.

    :param token: for the server, or for a proxy in front of it; empty: none
    :param conn_id: the Airflow connection whose password is the token; empty: none
    :param conf: settings of each session
    """

    server: ConnectServer
    token: str = field(default="", repr=False)
    conn_id: str = ""
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


class ServerNotAllowedError(Exception):
    """A record names a server that this process may not call for that reason."""


@dataclass(frozen=True, slots=True)
class AllowedServers:
    """The servers that a process may call because a record names them.

    Whoever may write records could name any server, turn off TLS, or name another user or cluster. So a server must be
    allowed as it stands in the record, with all of these.

    :param setting: the parameter or option that allows one, for people
    """

    servers: tuple[ConnectServer, ...] = ()
    setting: str = field(default="allowed_spark_servers", compare=False)

    @classmethod
    def of(cls, urls: Iterable[str], setting: str = "allowed_spark_servers") -> AllowedServers:
        """:raises ConnectUrlError: if one is not the URL of a server"""
        return cls(tuple(map(ConnectServer.parse, urls)), setting)

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    def check(self, server: ConnectServer) -> None:
        """:raises ServerNotAllowedError: naming the server, and the setting that allows it"""
        if server not in self.servers:
            raise ServerNotAllowedError(
                f"{server} is not called, because only a record of the group names it. If the group's streams have run"
                f" there, allow it by {self.setting}"
            )


NO_OTHERS: Final = AllowedServers()


def session_id(*names: str) -> str:
    """The id of the session with these names: whoever knows the names gets the same id."""
    return str(uuid.uuid5(_SESSIONS, "\0".join(names)))


def following(session_id: str) -> str:
    """The id of the session that replaces a used one: whoever knows the used one's id gets the same id."""
    return str(uuid.uuid5(_SESSIONS, session_id))


def start_id() -> str:
    """A new id for an operation that starts a query: by it, whoever ends the session knows not to interrupt it."""
    return f"{_START}{str(uuid.uuid4())[len(_START) :]}"


def is_start(operation_id: str) -> bool:
    return operation_id.startswith(_START)


def _address(address: str) -> tuple[str, int]:
    if "@" in address:
        raise ConnectUrlError("a Spark Connect URL takes no user and password before the host: use ;user_id=NAME")
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
        if host and ":" in host:
            host = str(ipaddress.IPv6Address(host))
    except ValueError as wrong:
        raise ConnectUrlError(f"the address of a Spark Connect server must be host or host:port: {wrong}") from None
    if not host:
        raise ConnectUrlError("the URL of a Spark Connect server names no host: sc://host:port")
    return host, DEFAULT_PORT if port is None else port


def _pairs(parameters: list[str]) -> Iterator[tuple[str, str]]:
    for parameter in filter(None, parameters):
        name, _, value = parameter.partition("=")
        yield name, unquote(value)


def _refusal(name: str) -> str:
    if name == "token":
        return (
            "a token does not belong in the URL of a Spark Connect server, which is shown and logged: put it into the"
            f" password of a connection of type spark_connect, or, for cospark, into the environment: {TOKEN_ENV}"
        )
    if name in _OURS:
        return f"{name} is set for each task: leave it out of the URL of the Spark Connect server"
    if name in ("user_id", "use_ssl"):
        return f"{name} has no usable value: it must be {'a name' if name == 'user_id' else 'true or false'}"
    if name == DATABRICKS_CLUSTER:
        return f"{name} has no value: it must be the id of a cluster of the Databricks workspace"
    known = f"user_id, use_ssl, {DATABRICKS_CLUSTER}"
    return f"{name or 'an empty name'} is not a known parameter of a Spark Connect URL. Known are: {known}"
