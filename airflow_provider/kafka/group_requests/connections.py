"""Connections to the brokers of one cluster: opened when needed and shared if possible. All failures are
:class:`TransportError`.

They are built on aiokafka's connections, not on its client. The client hides why it could not connect, logs each try,
has the same timeout for all requests, and opens one connection at a time: one broker that does not answer would block
all memberships of a process.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import ssl
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aiokafka import errors as aiokafka_errors
from aiokafka.conn import collect_hosts
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.util import wait_for

from airflow_provider.kafka.errors import (
    CHECK_CERTIFICATE,
    CHECK_CREDENTIALS,
    CHECK_MECHANISM,
    CHECK_NAME,
    CHECK_PROTOCOL,
    CHECK_SERVERS,
    Fault,
    TransportError,
)
from airflow_provider.kafka.group_requests.connection_limit import Openings
from airflow_provider.kafka.group_requests.fair_turns import Turnstile
from airflow_provider.kafka.group_requests.messages import NodeId
from airflow_provider.kafka.group_requests.socket_closing import Connection, Ends
from airflow_provider.kafka.group_requests.write_batching import OneWrite
from airflow_provider.kafka.settings import KafkaSettings

_SHARED_IDLE_MS: Final = 540_000  # brokers close after 600 s
_IN_A_TURN: Final = 20
_NO_ANSWER: Final = (
    OSError,  # DNS and TLS included
    EOFError,
    asyncio.TimeoutError,
    NotImplementedError,  # no version in common
    aiokafka_errors.KafkaError,
)
# While a connection is opened, the other side may send anything, so that aiokafka may raise these, too.
_NO_CONNECTION: Final = (*_NO_ANSWER, ValueError, AssertionError)
_SECURITY_ERRORS: Final = (
    ssl.SSLError,
    aiokafka_errors.SaslAuthenticationFailed,
    aiokafka_errors.UnsupportedSaslMechanismError,
    aiokafka_errors.IllegalSaslStateError,
    aiokafka_errors.AuthenticationFailedError,
    aiokafka_errors.AuthenticationMethodNotSupported,
)
_OTHER_NAME: Final = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Owner(NamedTuple):
    """The membership that a connection is kept for."""

    member: str
    group_id: str


@dataclass(frozen=True, slots=True)
class _Kept:
    """An idle connection, and the timer that closes it if it is not used."""

    connection: Connection
    closes: asyncio.TimerHandle


class Connections:
    """All connections of one event loop to one cluster."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        arguments = settings.aiokafka()
        self._bootstrap = [Address(host, port) for host, port, _ in collect_hosts(arguments.pop("bootstrap_servers"))]
        self._arguments = arguments
        self._nodes: dict[NodeId, Address] = {}
        self._shared: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Task[Connection]] = {}
        self._kept: dict[Owner, _Kept] = {}
        self._ends = Ends()
        self._openings: dict[Address, Openings] = {}
        self._versions: dict[Address, dict[int, tuple[int, int]]] = {}
        self._turnstile = Turnstile(_IN_A_TURN)
        _log_once()

    def learn(self, node: NodeId, address: Address) -> None:
        """Note the address of a broker."""
        self._nodes[node] = address

    async def nodes(self) -> list[NodeId]:
        response = await self.ask_any(MetadataRequest([]))
        self._nodes = {NodeId(node): Address(host, port) for node, host, port, *_ in response.brokers}
        return list(self._nodes)

    async def ask_any(self, request: Any) -> Any:
        """Send a request that any broker can answer, preferably to one that is connected already.

        An answer may take as long as opening a connection, because the network may have dropped an idle connection.

        :raises TransportError: no broker answers. If one has refused the credentials, this error is raised, and not
            that of a broker that is away
        """
        await self.turn()
        known = dict.fromkeys((*self._shared, *self._bootstrap, *self._nodes.values()))
        shuffled = random.sample(list(known), len(known))
        failure: TransportError | None = None
        for address in sorted(shuffled, key=lambda address: not self._is_connected(address)):
            try:
                return await self._ask_shared(address, request, self._settings.connect_timeout_ms / 1000)
            except TransportError as error:
                failure = error if failure is None or failure.retriable else failure
        if failure is None:
            failure = TransportError("no broker is known", fault=Fault.CONNECTION)
        if failure.retriable and not str(failure).endswith(CHECK_PROTOCOL):
            raise TransportError(f"{failure}; {CHECK_SERVERS}", fault=failure.fault) from failure
        raise failure

    async def turn(self) -> None:
        """Wait if very many memberships send or have just got an answer, so that other work of the loop goes on."""
        await self._turnstile.enter()

    async def ask(self, node: NodeId, request: Any, *, timeout_s: float | None = None) -> Any:
        """Send a request that is answered immediately, on the shared connection.

        :param timeout_s: how long the answer may take; None: the connection's request timeout
        :raises TransportError: there is no answer
        """
        return await self._ask_shared(await self._address(node), request, timeout_s)

    async def ask_alone(self, node: NodeId, owner: Owner | None, request: Any, *, timeout_ms: int, idle_ms: int) -> Any:
        """Send a request that blocks its connection, on a connection of its own.

        The connection stays open for ``idle_ms`` after the answer, for the next such request of the same owner.

        :param owner: the membership; None: a connection for this request only
        :param timeout_ms: how long the answer may take on a new connection. A kept one has the timeout with which it
            was opened
        :raises TransportError: there is no answer
        """
        address = await self._address(node)
        connection = self._take(owner, address)
        crowd = None
        if connection is None:
            opening = functools.partial(self._open, address, request_timeout_ms=timeout_ms, idle_ms=None)
            crowd = self._openings.setdefault(address, Openings())
            connection = await crowd.turn(opening)
        try:
            if crowd is not None:
                await crowd.all_open()
                await self.turn()
            response = await _send(connection, address, request)
            await self.turn()  # all members of the group are answered at the same time
        except BaseException:
            # Also if the caller has given up: the broker would not answer anything else on it for a long time.
            connection.close()
            raise
        self._keep(owner, connection, idle_ms)
        return response

    def release(self, member: str) -> None:
        """Close the connections that are kept for this member, in all groups."""
        for owner in [owner for owner in self._kept if owner.member == member]:
            self._forget(owner)

    def _keep(self, owner: Owner | None, connection: Connection, idle_ms: int) -> None:
        if owner is None:
            connection.close()
            return
        self._forget(owner)
        closes = asyncio.get_running_loop().call_later(idle_ms / 1000, self._forget, owner)
        self._kept[owner] = _Kept(connection, closes)

    def _take(self, owner: Owner | None, address: Address) -> Connection | None:
        """Take over the connection that is kept for this owner, if it still leads to this address."""
        kept = self._kept.pop(owner, None) if owner else None
        if kept is None:
            return None
        kept.closes.cancel()
        connection = kept.connection
        if connection.connected() and Address(connection.host, connection.port) == address:
            return connection
        connection.close()
        return None

    def _forget(self, owner: Owner) -> None:
        kept = self._kept.pop(owner, None)
        if kept is not None:
            kept.closes.cancel()
            kept.connection.close()

    async def close(self) -> None:
        """Close all connections. Unanswered requests fail."""
        for task in self._opening.values():
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        for kept in self._kept.values():
            kept.closes.cancel()
        connections = [*self._shared.values(), *(kept.connection for kept in self._kept.values())]
        self._shared.clear()
        self._kept.clear()
        for connection in connections:
            connection.close()
        await self._ends.all_closed()

    async def _address(self, node: NodeId) -> Address:
        if node not in self._nodes:
            await self.nodes()
        try:
            return self._nodes[node]
        except KeyError:
            raise TransportError(f"the cluster has no broker {node}", fault=Fault.CONNECTION) from None

    async def _ask_shared(self, address: Address, request: Any, timeout_s: float | None = None) -> Any:
        connection = await self._shared_connection(address)
        try:
            return await _send(connection, address, request, timeout_s or self._settings.request_timeout_ms / 1000)
        except TransportError as error:
            if error.fault is Fault.TIMEOUT:
                connection.close()  # later requests wait for this one; the network may have dropped the connection
            raise

    async def _shared_connection(self, address: Address) -> Connection:
        if self._is_connected(address):
            return self._shared[address]
        opening = self._opening.get(address)
        if opening is None:
            opening = asyncio.ensure_future(self._open_shared(address))
            self._opening[address] = opening
            opening.add_done_callback(lambda done: self._opened(address, done))
        await asyncio.wait([opening])  # a caller that gives up does not cancel it for the others
        if opening.cancelled():
            raise TransportError(f"cannot connect to {address}: the connection was closed", fault=Fault.CONNECTION)
        return opening.result()

    def _is_connected(self, address: Address) -> bool:
        connection = self._shared.get(address)
        return connection is not None and connection.connected()

    async def _open_shared(self, address: Address) -> Connection:
        connection = await self._open(
            address, request_timeout_ms=self._settings.request_timeout_ms, idle_ms=_SHARED_IDLE_MS
        )
        connection._writer = OneWrite(connection._writer)  # noqa: SLF001  there is no parameter for it
        connection._request_timeout = None  # noqa: SLF001  callers have timers of their own
        self._shared[address] = connection
        return connection

    def _opened(self, address: Address, task: asyncio.Task[Connection]) -> None:
        del self._opening[address]
        if not task.cancelled():
            task.exception()  # so that asyncio does not log it if all callers have given up

    async def _open(self, address: Address, *, request_timeout_ms: int, idle_ms: int | None) -> Connection:
        arguments = {**self._arguments, "request_timeout_ms": request_timeout_ms, "max_idle_ms": idle_ms}
        timeout_s = self._settings.connect_timeout_ms / 1000
        try:
            connection = Connection(self._ends, address.host, address.port, **arguments)
            await wait_for(connection.connect(), timeout_s)
        except _NO_CONNECTION as error:
            raise _transport_error(error, f"cannot connect to {address}", waited_s=timeout_s) from error
        self._share_versions(connection, address)
        return connection

    def _share_versions(self, connection: Connection, address: Address) -> None:
        """Let all connections to a broker share its table of versions, which each one has asked for. A table has 8 KB,
        and there may be thousands of connections.
        """
        known = self._versions.get(address)
        if known != connection._versions:  # noqa: SLF001
            known = self._versions[address] = connection._versions  # noqa: SLF001
        connection._versions = known  # noqa: SLF001


async def _send(connection: Connection, address: Address, request: Any, timeout_s: float | None = None) -> Any:
    try:
        return await wait_for(connection.send(request), timeout_s)
    except _NO_ANSWER as error:
        raise _transport_error(error, f"{type(request).__name__} to {address} has no answer") from error


def _transport_error(error: Exception, what: str, *, waited_s: float | None = None) -> TransportError:
    if isinstance(error, _SECURITY_ERRORS):
        return TransportError(f"{what}: {_text(error)}; {_what_to_check(error)}", fault=Fault.SECURITY)
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        after = "" if waited_s is None else f" after {waited_s:g} s"
        return TransportError(f"{what}: timed out{after}", fault=Fault.TIMEOUT)
    if isinstance(error, (NotImplementedError, aiokafka_errors.IncompatibleBrokerVersion)):
        return TransportError(
            f"{what}: the broker is too old or too new for it (Kafka 2.4 to 4.x is supported)", fault=Fault.VERSION
        )
    # A listener with another security protocol closes the connection in the middle of an answer.
    hint = f"; {CHECK_PROTOCOL}" if isinstance(error.__cause__ or error, asyncio.IncompleteReadError) else ""
    return TransportError(f"{what}: {_text(error)}{hint}", fault=Fault.CONNECTION)


def _what_to_check(error: Exception) -> str:
    """What people should check, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return CHECK_NAME if error.verify_code in _OTHER_NAME else CHECK_CERTIFICATE
    if isinstance(error, ssl.SSLError):
        return CHECK_PROTOCOL if "WRONG_VERSION_NUMBER" in str(error) else CHECK_CERTIFICATE
    known = isinstance(error, aiokafka_errors.UnsupportedSaslMechanismError)
    return CHECK_MECHANISM if known else CHECK_CREDENTIALS


def _text(error: BaseException) -> str:
    return f"{error}" if error.__cause__ is None else f"{error} ({error.__cause__!r})"


class _Once(logging.Filter):
    """Lets each message through once: aiokafka logs the same for each connection, and there may be a thousand."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR or record.levelno <= logging.DEBUG:
            return True
        message = record.getMessage()
        fresh = message not in self._seen
        self._seen.add(message)
        return fresh


def _log_once() -> None:
    logger = logging.getLogger("aiokafka.conn")
    if not any(isinstance(each, _Once) for each in logger.filters):
        logger.addFilter(_Once())
