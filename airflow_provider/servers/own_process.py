"""A server of this process: on loopback, on a port that nobody else has, and gone when this process is."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import weakref
from typing import Final

HOST: Final = "127.0.0.1"
# Below the range from which the kernel takes ports for outgoing connections: nobody gets one of these by accident
# between our look and the server's bind.
_PORTS: Final = range(20_000, 32_000)
_LOG_LINES_SHOWN: Final = 30


class PortError(RuntimeError):
    """A port can't be had; the message says which."""


def watch_over(pid: int) -> subprocess.Popen[bytes]:
    """A process that ends ``pid`` when this process is gone, even if it was killed: its standard input ends then."""
    return subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", 'read -r _; kill -9 "$1"', "sh", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class HeldPort:
    """A port that is free, and that nobody else is given by :func:`hold_ports` as long as this object lives.

    A server can listen there meanwhile: it is bound without listening, which SO_REUSEADDR allows beside a server, and
    Java's sockets have that set.
    """

    __slots__ = ("__weakref__", "number")

    def __init__(self, bound: socket.socket) -> None:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: Final[int] = bound.getsockname()[1]
        weakref.finalize(self, os.close, bound.detach())


def hold_ports(count: int) -> list[HeldPort]:
    """:raises PortError: if there are none"""
    held: list[HeldPort] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind((HOST, port))
            held.append(HeldPort(free))
        if len(held) == count:
            return held
    raise PortError(f"there is no free port between {_PORTS.start} and {_PORTS.stop}")


def require_free(port: int) -> None:
    """:raises PortError: if somebody listens there"""
    with socket.socket() as listener:
        # As the server does: connections of one that was killed just now may still be there.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as taken:
            raise PortError(f"cannot listen on {HOST}:{port}: {taken.strerror}") from taken


def tail(text: str) -> str:
    """The end of a log."""
    return "\n".join(text.splitlines()[-_LOG_LINES_SHOWN:]) or "(it printed nothing)"
