"""Brokers that fail when a test says so: those of librdkafka, in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Final

import confluent_kafka

PRODUCE: Final = 0
LIST_OFFSETS: Final = 2
OFFSET_COMMIT: Final = 8
OFFSET_FETCH: Final = 9
INIT_PRODUCER_ID: Final = 22
CONSUMER_GROUP_HEARTBEAT: Final = 68

_ONLY: Final = 1
"""The number of the only broker."""


class BrokerError(IntEnum):
    """Error codes of Kafka's protocol."""

    NOT_LEADER_FOR_PARTITION = 6
    NOT_COORDINATOR = 16
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_REQUEST = 42
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    FENCED_LEADER_EPOCH = 74


class MockBrokers:
    """One cluster.

    :ivar servers: its bootstrap servers
    """

    def __init__(self, library: ctypes.CDLL, cluster: int) -> None:
        self._library = library
        self._cluster = ctypes.c_void_p(cluster)
        library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        self.servers: str = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        library.rd_kafka_mock_set_controller_id(self._cluster, ctypes.c_int32(_ONLY))  # admin clients ask for it

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        assert not self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)

    def fail(self, api: int, *errors: BrokerError) -> None:
        """Answer the next requests of an API with these errors, one each."""
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(api), ctypes.c_size_t(len(errors)), (ctypes.c_int * len(errors))(*errors)
        )

    def go(self) -> None:
        """Stop answering, and close all connections."""
        assert not self._library.rd_kafka_mock_broker_set_down(self._cluster, ctypes.c_int32(_ONLY))

    def come_back(self) -> None:
        """Answer again."""
        assert not self._library.rd_kafka_mock_broker_set_up(self._cluster, ctypes.c_int32(_ONLY))

    def take_s(self, seconds: float) -> None:
        """Let each answer take so long."""
        assert not self._library.rd_kafka_mock_broker_set_rtt(
            self._cluster, ctypes.c_int32(_ONLY), ctypes.c_int(round(1000 * seconds))
        )


@contextmanager
def mock_brokers() -> Iterator[MockBrokers]:
    """A cluster of one broker, for as long as this lasts."""
    (path,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*")
    library = ctypes.CDLL(str(path))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    why = ctypes.create_string_buffer(512)
    config = ctypes.c_void_p(library.rd_kafka_conf_new())
    client = ctypes.c_void_p(library.rd_kafka_new(0, config, why, ctypes.c_size_t(len(why))))
    assert client, why.value
    cluster = library.rd_kafka_mock_cluster_new(client, 1)
    try:
        yield MockBrokers(library, cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(ctypes.c_void_p(cluster))
        library.rd_kafka_destroy(client)
