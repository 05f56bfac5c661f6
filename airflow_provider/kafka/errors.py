"""What can go wrong between us and a broker: the broker's own error codes, and no answer at all."""

from __future__ import annotations

from enum import Enum

from airflow_provider.membership.errors import KafkaErrorCode

__all__ = ["Fault", "KafkaErrorCode", "TransportError"]


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
