"""The wire format of declarative groups: requests, replies, and the records of coordinators.

These are the schemas of the proposal "Connect on KIP-848", field by field, in Kafka's flexible encoding. A schema is a
value: a table of fields (:mod:`.encoding.structs`) with types (:mod:`.encoding.types`), which reads and writes a
dataclass. :mod:`.messages.apis` has requests and replies, :mod:`.records` the records. Where schemas contradict each
other, the table or its dataclass says how they are interpreted.

Reading received bytes raises :class:`MalformedMessageError` and nothing else, with the place and with what was expected
there. It takes time and memory of a small multiple of their size.
"""

from __future__ import annotations

from airflow_provider.group.declarative.protocol.wire.errors import MalformedMessageError, UnwritableMessageError

__all__ = ["MalformedMessageError", "UnwritableMessageError"]
