"""What can go wrong between us and a broker: the broker's own error codes, and no answer at all."""

from __future__ import annotations

from enum import Enum, IntEnum


class KafkaErrorCode(IntEnum):
    """The error codes that brokers answer group requests with (Kafka's ``Errors``).

    A code that is not listed here is kept as a value of its own (``KafkaErrorCode(999).name == "CODE_999"``): a newer
    broker must not be able to break us by being precise.
    """

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
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
    INVALID_REQUEST = 42
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    UNRELEASED_INSTANCE_ID = 111

    @classmethod
    def _missing_(cls, value: object) -> KafkaErrorCode | None:
        if not isinstance(value, int):
            return None
        unlisted = int.__new__(cls, value)
        unlisted._name_ = f"CODE_{value}"
        unlisted._value_ = value
        return unlisted


class Fault(str, Enum):
    """Why a request has no answer."""

    CONNECTION = "connection"
    """The broker could not be reached, or the connection broke; another try may help."""
    TIMEOUT = "timeout"
    """Nothing came back in time; another try may help."""
    SECURITY = "security"
    """The broker refused our credentials, or one side refused the other's certificate; people must act."""
    VERSION = "version"
    """The broker does not speak any version of the request that we do; people must act."""


class TransportError(Exception):
    """A request got no answer: the broker may or may not have acted on it.

    :param fault: whose matter it is
    :param retriable: whether the same request may succeed later without anybody's doing
    """

    def __init__(self, message: str, *, fault: Fault) -> None:
        super().__init__(message)
        self.fault = fault

    @property
    def retriable(self) -> bool:
        return self.fault in (Fault.CONNECTION, Fault.TIMEOUT)

    @property
    def is_security(self) -> bool:
        """Whether credentials or certificates are at fault."""
        return self.fault is Fault.SECURITY
