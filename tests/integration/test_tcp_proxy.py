"""The proxy for tests of broken networks leaves nothing open, whenever it ends."""

from __future__ import annotations

import socket

from left_open import found_open
from tcp_proxy import TcpProxy


def test_connections_that_come_while_it_ends_are_closed() -> None:
    for _ in range(200):
        with TcpProxy() as proxy:
            clients = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(5)]
            proxy.cut()
            clients.append(socket.create_connection(("127.0.0.1", proxy.port)))
        for client in clients:
            client.close()
    assert found_open() == []
