"""A real broker that some clients reach through a proxy, which a test can stall or cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from tcp_proxy import TcpProxy
from waiting import DEADLINE_S

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.servers.own_process import hold_ports


class Network(NamedTuple):
    """A broker with a direct address, and one address for each proxy."""

    broker: LocalBroker
    ways: Sequence[TcpProxy]

    @property
    def near(self) -> str:
        return self.broker.bootstrap_servers


@contextmanager
def proxied_broker(ways: int, properties: Mapping[str, object] | None = None) -> Iterator[Network]:
    """Start a broker with a listener for each proxy, so that clients that connect through a proxy stay behind it.

    :param ways: how many proxies
    :param properties: further broker settings
    """
    with ExitStack() as held:
        proxies = [held.enter_context(TcpProxy()) for _ in range(ways)]
        ports = hold_ports(3 + ways)
        client, internal, controller, *targets = (port.number for port in ports)
        listens = {"CLIENT": client, "INTERNAL": internal, "CONTROLLER": controller}
        told = {"CLIENT": client, "INTERNAL": internal}
        for number, (proxy, target) in enumerate(zip(proxies, targets, strict=True), start=1):
            proxy.target_port = listens[f"WAY{number}"] = target
            told[f"WAY{number}"] = proxy.port
        listeners = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listens.items()),
            "advertised.listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in told.items()),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listens),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        }
        broker = held.enter_context(
            LocalBroker(port=client, properties={**(properties or {}), **listeners}, start_timeout_s=DEADLINE_S)
        )
        yield Network(broker, proxies)
    del ports  # until now nobody else was given them
