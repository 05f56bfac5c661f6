"""The bytes of the declarative group: requests, replies, and the records that a coordinator keeps.

They are the schemas of the proposal "Connect on KIP-848", field by field, in Kafka's flexible encoding. A schema is a
value: a table of fields (:mod:`.structs`) that have types (:mod:`.types`). What is read and written by it are
dataclasses. :mod:`.apis` has requests and replies, :mod:`.records` the records. Where the schemas contradict
themselves, the table or its dataclass says how it was read.

Bytes that somebody has sent raise :class:`MalformedMessageError` and nothing else, with the place and with what was
expected there, in time and memory that are a small multiple of their size.
"""

from __future__ import annotations

from airflow_provider.declarative.wire.errors import MalformedMessageError, UnwritableMessageError

__all__ = ["MalformedMessageError", "UnwritableMessageError"]
