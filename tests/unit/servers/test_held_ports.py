"""Servers that start at the same time get ports of their own."""

from __future__ import annotations

import socket

import pytest

from airflow_provider.servers import own_process
from airflow_provider.servers.own_process import HOST, PortError, hold_ports, require_free


def test_a_held_port_is_given_to_nobody_else_and_a_server_can_listen_there(monkeypatch: pytest.MonkeyPatch) -> None:
    (held,) = hold_ports(1)
    monkeypatch.setattr(own_process, "_PORTS", range(held.number, held.number + 1))
    with pytest.raises(PortError, match="no free port"):
        hold_ports(1)
    require_free(held.number)
    with socket.create_server((HOST, held.number)), pytest.raises(PortError, match="in use"):
        require_free(held.number)
    number = held.number
    del held
    (again,) = hold_ports(1)
    assert again.number == number
