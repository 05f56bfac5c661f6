"""Parts that several messages have: connectors and tasks, and assignors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from airflow_provider.group.declarative.protocol.wire.encoding.structs import Field, Struct, struct_of
from airflow_provider.group.declarative.protocol.wire.encoding.types import (
    COMPACT_STRING,
    INT32,
    Bytes,
    CompactArrayOf,
    Int8,
    Int16,
    Text,
)
from airflow_provider.values.model import TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorsAndTasks:
    """Planners and tasks.

    The proposal's schemas call this ConnectorsAndTasks, ConnectorsAndTask and ConnectorsTasks, spell its fields with
    and without a capital, and give one of them three types. Here it is one struct. As in all of the schemas, messages
    have an array of it; this code writes one entry with everything, or none.

    :param connectors: the jobs whose planners are meant
    :param tasks: tasks with an index of 0 or more
    """

    connectors: Annotated[tuple[str, ...], CompactArrayOf(COMPACT_STRING)] = ()
    tasks: Annotated[tuple[TaskId, ...], CompactArrayOf(_CONNECTOR_TASK_ID)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    """A client side assignor that a member has.

    :param name: not empty
    :param minimum_version: the lowest version of metadata that it can read, at least -1
    :param maximum_version: the highest version of metadata that it can read
    :param reason: why the metadata have changed, as the assignor numbers reasons
    :param version: the version of ``metadata``
    """

    name: Text
    minimum_version: Int16
    maximum_version: Int16
    reason: Int8 = 0
    version: Int16
    metadata: Bytes = b""


_CONNECTOR_TASK_ID: Final = Struct(
    TaskId, (Field("ConnectorId", COMPACT_STRING, attribute="job"), Field("TaskId", INT32, attribute="index"))
)
"""The proposal's data model has an int8 for the index, which would limit a job to 128 tasks. It is an int32 here."""

CONNECTORS_AND_TASKS: Final = CompactArrayOf(struct_of(ConnectorsAndTasks))
Units: TypeAlias = Annotated[tuple[ConnectorsAndTasks, ...], CONNECTORS_AND_TASKS]

ASSIGNORS: Final = CompactArrayOf(struct_of(Assignor))
