"""Requests to a broker without an answer: why, and what people should check."""

from __future__ import annotations

from enum import Enum
from typing import Final

CHECK_CREDENTIALS: Final = "check sasl.username, sasl.password and sasl.mechanism of the connection"
CHECK_MECHANISM: Final = "check sasl.mechanism of the connection: the broker does not offer it"
CHECK_CERTIFICATE: Final = (
    "check ssl.ca.location of the connection (who signed the broker's certificate?) and bootstrap.servers (are these"
    " the names in it?)"
)
CHECK_NAME: Final = (
    "check bootstrap.servers of the connection: the broker's certificate is for other names"
    " (ssl.endpoint.identification.algorithm)"
)
CHECK_PROTOCOL: Final = "check security.protocol of the connection: does this listener speak it?"
CHECK_SERVERS: Final = "check bootstrap.servers and security.protocol of the connection, and that the broker runs"


class Fault(str, Enum):
    """Why a request has no answer."""

    CONNECTION = "connection"
    """The broker could not be reached, or the connection broke. Another try may help."""
    TIMEOUT = "timeout"
    """No answer came in time. Another try may help."""
    SECURITY = "security"
    """The broker has refused the credentials, or one side the other's certificate. People must act."""
    VERSION = "version"
    """This client and the broker have no version of the request in common. People must act."""


class TransportError(Exception):
    """A request got no answer. The broker may have carried it out or not.

    :param fault: the cause
    """

    def __init__(self, message: str, *, fault: Fault) -> None:
        super().__init__(message)
        self.fault = fault

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without anyone's help."""
        return self.fault in (Fault.CONNECTION, Fault.TIMEOUT)
