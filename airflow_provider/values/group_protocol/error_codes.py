"""The error codes of group requests. They are part of the protocol, whatever client is used."""

from __future__ import annotations

from enum import IntEnum


class KafkaErrorCode(IntEnum):
    """The error codes with which brokers answer group requests (Kafka's ``Errors``).

    A code that is not listed is kept as a value of its own (``KafkaErrorCode(999).name == "CODE_999"``), because a
    newer broker may send codes that we don't know.
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    REQUEST_TIMED_OUT = 7
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    COMPUTE_ASSIGNMENT = 1001
    """This and the next one are not Kafka's: no broker has declarative Connect groups. Kafka's own are below 200."""
    INVALID_ASSIGNMENT = 1002

    @classmethod
    def _missing_(cls, value: object) -> KafkaErrorCode | None:
        if not isinstance(value, int):
            return None
        unlisted = int.__new__(cls, value)
        unlisted._name_ = f"CODE_{value}"
        unlisted._value_ = value
        return unlisted
