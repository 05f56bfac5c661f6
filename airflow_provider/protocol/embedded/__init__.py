"""Connect's embedded protocol: what members and leader tell each other inside JoinGroup and SyncGroup, as bytes.

The coordinator passes these bytes on without looking at them, and says which of the offered versions it has chosen for
the round. Each version is a module of its own with the four functions of a :class:`Codec`. :data:`CODECS` is the table
of them. Those of Connect itself (:data:`CONNECTS`) have the same values, :data:`EXTENSIBLE` has its own.

Bytes that a peer has sent raise ``MalformedEmbeddedError`` and nothing else, in time and memory that are a small
multiple of their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeVar

from airflow_provider.protocol.embedded import v0, v1, v3
from airflow_provider.protocol.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.protocol.model import Assignment, SubProtocol, WorkerState

_State = TypeVar("_State")
_Assignment = TypeVar("_Assignment")


class Codec(Protocol[_State, _Assignment]):
    """One version of the embedded protocol, and the values in which it speaks."""

    def encode_metadata(self, state: _State) -> bytes:
        """A member's metadata for JoinGroup. The same state gives the same bytes, whatever the order of its sets.

        :raises LocalProtocolError: for a value that the format can't carry
        """

    def decode_metadata(self, data: bytes) -> _State:
        """The inverse of :meth:`encode_metadata`.

        :raises MalformedEmbeddedError: naming the field and the byte at which it starts
        """

    def encode_assignment(self, assignment: _Assignment) -> bytes:
        """What a leader sends one member in SyncGroup. The bytes do not depend on the order of its sets.

        :raises LocalProtocolError: for a value that the format can't carry
        """

    def decode_assignment(self, data: bytes) -> _Assignment:
        """The inverse of :meth:`encode_assignment`.

        :raises MalformedEmbeddedError: naming the field and the byte at which it starts
        """


CONNECTS: Final[Mapping[SubProtocol, Codec[WorkerState, Assignment]]] = {
    SubProtocol.DEFAULT: v0,
    SubProtocol.COMPATIBLE: v1,
    SubProtocol.SESSIONED: v1,  # v2 differs from v1 by its number only
}
EXTENSIBLE: Final[Codec[ExtensibleState, ExtensibleAssignment]] = v3
CODECS: Final[Mapping[SubProtocol, Codec[Any, Any]]] = {**CONNECTS, SubProtocol.EXTENSIBLE: EXTENSIBLE}
_BY_VERSION: Final[Mapping[int, Codec[Any, Any]]] = {protocol.version: codec for protocol, codec in CODECS.items()}


def codec_of_bytes(data: bytes) -> Codec[Any, Any]:
    """For tools, which see bytes without the group that has chosen a protocol: by the number with which all begin.

    A version that is not known yet is read like the last one that is; one that can't be, like the first, which says so.
    """
    version = int.from_bytes(data[:2], "big", signed=True)
    return _BY_VERSION[max((known for known in _BY_VERSION if known <= version), default=0)]
