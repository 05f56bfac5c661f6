"""Connect's embedded protocol: what members and leader tell each other inside JoinGroup and SyncGroup, as bytes.

The coordinator passes these bytes on unread, and says which of the offered versions it has chosen for the round. Each
version is a module with the four functions of a :class:`Codec`, and :data:`CODECS` is the table of them. Connect's own
versions (:data:`CONNECTS`) share their values. So do those in which tasks are learned (:data:`LEARNING`).

Decoding a peer's bytes raises ``MalformedEmbeddedError`` and nothing else. It takes time and memory of at most a small
multiple of their size; in v4, of their size when they are unpacked, which has a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeVar

from airflow_provider.group.classic.wire import v0, v1, v3, v4
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.values.model import Assignment, SubProtocol, WorkerState

_State = TypeVar("_State")
_Assignment = TypeVar("_Assignment")


class Codec(Protocol[_State, _Assignment]):
    """One version of the embedded protocol, with its types of metadata and assignments."""

    def encode_metadata(self, state: _State) -> bytes:
        """Encode a member's metadata for JoinGroup. Equal states give equal bytes, whatever the order of their sets.

        :raises LocalProtocolError: for a value that the format can't carry
        """

    def decode_metadata(self, data: bytes) -> _State:
        """The inverse of :meth:`encode_metadata`.

        :raises MalformedEmbeddedError: naming the field and the byte at which it starts
        """

    def encode_assignment(self, assignment: _Assignment) -> bytes:
        """Encode what a leader sends one member in SyncGroup. The bytes do not depend on the order of its sets.

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
LEARNING: Final[Mapping[SubProtocol, Codec[ExtensibleState, ExtensibleAssignment]]] = {
    SubProtocol.EXTENSIBLE: v3,
    SubProtocol.COMPRESSED: v4,
}
CODECS: Final[Mapping[SubProtocol, Codec[Any, Any]]] = {**CONNECTS, **LEARNING}
_BY_VERSION: Final[Mapping[int, Codec[Any, Any]]] = {protocol.version: codec for protocol, codec in CODECS.items()}


def codec_of_bytes(data: bytes) -> Codec[Any, Any]:
    """Choose the codec by the version with which the bytes begin, for tools that do not know the group's protocol.

    A version that is too new is read like the latest that we know. A negative one is read like v0, which rejects it.
    """
    version = int.from_bytes(data[:2], "big", signed=True)
    return _BY_VERSION[max((known for known in _BY_VERSION if known <= version), default=0)]
