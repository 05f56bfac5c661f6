"""Nothing stays open when connections are closed, whatever the broker does. It stands here for one that hangs: it says
what it has to say over TLS, and then does not even answer that it is being left.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest
from certificates import Certificates
from left_open import found_open
from waiting import DEADLINE_S

from airflow_provider.kafka.errors import Fault, TransportError
from airflow_provider.kafka.group_requests import socket_closing
from airflow_provider.kafka.group_requests.connections import Address, Connections
from airflow_provider.kafka.group_requests.inspection import ListGroups
from airflow_provider.kafka.group_requests.messages import NodeId
from airflow_provider.kafka.settings import KafkaSettings

NODE = NodeId(1)
UNSUPPORTED_SASL_MECHANISM = 33
SASL = (17, 36)
VERSIONS = struct.pack(">hi", 0, 40) + b"".join(
    struct.pack(">hhh", key, 0, 1 if key in SASL else 4) for key in range(40)
)
REFUSAL = struct.pack(">hi", UNSUPPORTED_SASL_MECHANISM, 0)


@contextmanager
def broker_that_hangs(certificates: Certificates, answers: Sequence[bytes]) -> Iterator[int]:
    """Its port. It gives one client these answers, and then none.

    :param answers: without their header
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker, certificates.broker_key)
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        # On a busy machine, the client may be gone before it has its answers.
        with suppress(OSError), context.wrap_socket(accepted, server_side=True) as client:
            for answer in answers:
                size = int.from_bytes(client.recv(4), "big")
                whole = client.recv(size)[4:8] + answer  # for whom it is, the correlation id says
                client.sendall(struct.pack(">i", len(whole)) + whole)
            over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join()


def ask_in_vain(port: int, extra: dict[str, object], *, timeout_s: float) -> Fault:
    """Open and close connections, all in an event loop that ends then; no error is kept, which would keep them."""

    async def ask() -> Fault:
        connections = Connections(KafkaSettings.from_extra(extra, conn_id="tests"))
        connections.learn(NODE, Address("127.0.0.1", port))
        with pytest.raises(TransportError) as failed:
            await connections.ask(NODE, ListGroups(), timeout_s=timeout_s)
        await connections.close()
        return failed.value.fault

    return asyncio.run(ask())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "sasl", "timeout_s", "fault"),
    [
        pytest.param([VERSIONS], {}, 0.5, Fault.TIMEOUT, id="answers no more"),
        pytest.param([VERSIONS, REFUSAL], {"sasl.mechanism": "PLAIN"}, DEADLINE_S, Fault.SECURITY, id="has refused us"),
    ],
)
def test_a_broker_that_hangs_keeps_no_socket_open(
    answers: Sequence[bytes],
    sasl: dict[str, object],
    timeout_s: float,
    fault: Fault,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_closing, "_PATIENCE_S", 0.1)
    protocol = "SASL_SSL" if sasl else "SSL"
    credentials = {**sasl, "sasl.username": "alice", "sasl.password": "s3cret"} if sasl else {}
    found_open()  # what others have left behind is not of interest here
    with broker_that_hangs(certificates, answers) as port:
        found = ask_in_vain(
            port,
            {
                "bootstrap.servers": f"127.0.0.1:{port}",
                "security.protocol": protocol,
                "ssl.ca.location": str(certificates.authority),
                **credentials,
            },
            timeout_s=timeout_s,
        )
        assert found_open() == []
    assert found is fault
