"""What the flexible versions (KIP-482) of all requests have in common, as types of aiokafka."""

from __future__ import annotations

from typing import TypeVar

from aiokafka.protocol.types import CompactString, Int32, TaggedFields

from airflow_provider.values.model import WorkerId

STRING = CompactString("utf-8")
TAGS = ("tags", TaggedFields)
NO_TAGS: dict[int, bytes] = {}

MEMBER = (("group_id", STRING), ("generation_id", Int32), ("member_id", STRING), ("group_instance_id", STRING))
"""The first fields of requests of a member of a generation."""

StructT = TypeVar("StructT")


def fill(struct: type[StructT], **fields: object) -> StructT:
    """Build a request of this version. Fields that only newer versions have are left out."""
    names: tuple[str, ...] = struct.SCHEMA.names  # type: ignore[attr-defined]  # each of aiokafka's has one
    return struct(**{name: (NO_TAGS if name == "tags" else fields[name]) for name in names})


def worker_id(instance_id: str | None) -> WorkerId | None:
    """The instance id as the name of a worker."""
    return None if instance_id is None else WorkerId(instance_id)
