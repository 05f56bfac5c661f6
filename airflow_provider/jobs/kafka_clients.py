"""Which Kafka clusters a worker reads, and how it connects to them. Only the worker says so.

A submitter who named a host and the secrets for it could have the secrets sent there. Some settings of Kafka's client
also load a class or run a program. So a job has only options that decide how much is read and when.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

CLUSTERS_ENV: Final = "COSPARK_KAFKA_CLUSTERS"
"""Names a file of the worker: a JSON object with a :class:`KafkaClient` for each ``bootstrap_servers``."""

_FREE: Final = re.compile(
    r"starting(Offsets|Timestamp|OffsetsByTimestamp|OffsetsByTimestampStrategy)|failOnDataLoss|"
    r"(max|min)OffsetsPerTrigger|maxTriggerDelay|minPartitions|maxRecordsPerPartition|groupIdPrefix|"
    r"kafkaConsumer\.pollTimeoutMs|fetchOffset\.(numRetries|retryIntervalMs)|"
    r"kafka\.(group\.id|client\.(id|rack)|isolation\.level|check\.crcs|max\.(poll|partition\.fetch)\.[a-z.]+|"
    r"(fetch|receive|send|request|session|heartbeat|connections|reconnect|retry|metadata|default\.api)\.[a-z.]+)"
)
_LOOKED_UP: Final = "${"
"""Kafka's providers of configs put what is in a file here."""


class KafkaClientError(Exception):
    """A worker does not connect to a cluster, or not like this."""


class KafkaClient(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to connect to a cluster.

    :param spark: options of Spark's Kafka source, such as ``kafka.security.protocol``
    :param librdkafka: what librdkafka needs for the same, to find topics by a pattern
    """

    spark: dict[str, str] = {}
    librdkafka: dict[str, str] = {}


def client_for(servers: str, environment: Mapping[str, str]) -> KafkaClient:
    """How this worker connects to a cluster. Where its environment names no file, it connects to any, without secrets.

    :raises KafkaClientError: if the file has no such servers, or is no such file
    """
    file = environment.get(CLUSTERS_ENV)
    if not file:
        return KafkaClient()
    try:
        clusters = msgspec.json.decode(Path(file).read_bytes(), type=dict[str, KafkaClient])
    except (OSError, msgspec.DecodeError) as wrong:
        raise KafkaClientError(f"{CLUSTERS_ENV}: this worker can't read {file}: {wrong}") from wrong
    if servers not in clusters:
        raise KafkaClientError(
            f"bootstrap_servers: this worker does not read from {servers!r}: {file}, which {CLUSTERS_ENV} names, has"
            " only other clusters, or the same with other servers or in another order"
        )
    return clusters[servers]


def check_options(options: Mapping[str, object]) -> None:
    """:raises KafkaClientError: for one that a job may not have"""
    for name, value in options.items():
        if not isinstance(value, str) or not _FREE.fullmatch(name) or _LOOKED_UP in value:
            raise KafkaClientError(
                f"options: a job can't set {name!r} like this, since it might decide where secrets go or what code"
                f" runs: put it into the file of the workers that {CLUSTERS_ENV} names"
            )
