"""Connect's embedded protocol: what members and leader tell each other inside JoinGroup and SyncGroup, as bytes.

The coordinator passes these bytes on without looking at them, and says which of the offered versions it has chosen for
the round. Each version is a module of its own with the four functions of a :class:`Codec`; :data:`CODECS` is the table
of them. A next version is a module, a line in that table, and a name in ``SubProtocol``.

Bytes that a peer has sent raise ``MalformedEmbeddedError`` and nothing else, in time and memory that are a small
multiple of their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from airflow_provider.protocol.embedded import v0, v1
from airflow_provider.protocol.model import Assignment, SubProtocol, WorkerState


class Codec(Protocol):
    """One version of the embedded protocol."""

    def encode_metadata(self, state: WorkerState) -> bytes:
        """A member's metadata for JoinGroup. The same state gives the same bytes, whatever the order of its sets.

        :raises LocalProtocolError: for a value that the format can't carry
        """

    def decode_metadata(self, data: bytes) -> WorkerState:
        """The inverse of :meth:`encode_metadata`.

        :raises MalformedEmbeddedError: naming the field and the byte at which it starts
        """

    def encode_assignment(self, assignment: Assignment) -> bytes:
        """What a leader sends one member in SyncGroup. The bytes do not depend on the order of its sets.

        :raises LocalProtocolError: for a value that the format can't carry
        """

    def decode_assignment(self, data: bytes) -> Assignment:
        """The inverse of :meth:`encode_assignment`.

        :raises MalformedEmbeddedError: naming the field and the byte at which it starts
        """


CODECS: Final[Mapping[SubProtocol, Codec]] = {
    SubProtocol.DEFAULT: v0,
    SubProtocol.COMPATIBLE: v1,
    SubProtocol.SESSIONED: v1,  # v2 differs from v1 by its number only
}
_BY_VERSION: Final = {protocol.version: codec for protocol, codec in CODECS.items()}


def codec_of_version(version: int) -> Codec:
    """For tools, which see bytes or values without the group that has chosen a protocol: by the number they begin with.

    A version that is not known yet is read like the last one that is; one that can't be, like the first, which says so.
    """
    return _BY_VERSION[max((known for known in _BY_VERSION if known <= version), default=0)]


def codec_of_bytes(data: bytes) -> Codec:
    """As :func:`codec_of_version`. All versions begin with their number, in two bytes."""
    return codec_of_version(int.from_bytes(data[:2], "big", signed=True))
