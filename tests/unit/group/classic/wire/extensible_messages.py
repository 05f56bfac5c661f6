"""Version 3 by other means: Google's runtime, and the accessors that its compiler makes of a schema.

``schema`` is such a module: of today's schema, or of the invented next one, whose fields can be filled, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import ModuleType
from typing import Any

from flatbuffers import Builder
from hypothesis import strategies as st

from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState, learning
from airflow_provider.values.model import ConfigOffset, Epoch, TaskId
from airflow_provider.values.packed_tasks import NOTHING, PackedTasks

# ---- values

texts = st.text(st.characters(codec="utf-8"), max_size=12)
task_ids = st.builds(TaskId, texts | st.sampled_from("ab"), st.integers(-1, 2**31 - 1) | st.integers(-1, 3))
packed = st.frozensets(task_ids, max_size=8).map(PackedTasks.of)
parts = st.floats(0, 1)
config_offsets = st.integers(-(2**63), 2**63 - 1).map(ConfigOffset)
epochs = st.integers(0, 2**63 - 1).map(Epoch)
versions = st.integers(3, 2**15 - 1)


@st.composite
def _states(draw: st.DrawFn) -> ExtensibleState:
    how_far = draw(st.dictionaries(task_ids, parts, max_size=5))
    learns, progress = learning(how_far)
    ready = draw(st.sets(st.sampled_from(sorted(how_far)))) if how_far else set()
    rest = sorted(how_far.keys() - ready)
    return ExtensibleState(
        version=draw(versions),
        url=draw(texts),
        config_offset=draw(config_offsets),
        owned=draw(packed),
        learning=learns,
        progress=progress if any(progress) else (),
        ready=PackedTasks.of(ready),
        failed=PackedTasks.of(draw(st.sets(st.sampled_from(rest)))) if rest else NOTHING,
        leaving=draw(st.none() | texts),
        slots=draw(st.none() | st.integers(0, 2**31 - 1)),
        weight=draw(st.none() | st.floats(0, allow_infinity=False)),
        epoch=draw(st.none() | epochs),
    )


states = _states()
assignments = st.builds(
    ExtensibleAssignment,
    version=versions,
    error=st.integers(-(2**15), 2**15 - 1),
    leader=texts,
    leader_url=texts,
    config_offset=config_offsets,
    target=st.none() | packed,
    revoked=packed,
    delay_ms=st.integers(0, 2**31 - 1),
    learning=packed,
    learned=packed,
    another_round=st.booleans(),
    shutdown=st.booleans(),
    epoch=st.none() | epochs,
)
additions = st.fixed_dictionaries(
    {},
    optional={
        "Host": texts,
        "Memory": st.integers(0, 2**64 - 1),
        "Disks": st.lists(texts, max_size=3),
        "Release": st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1)),
        "Company": st.tuples(st.sampled_from(["Alone", "Paired"]), texts),
        "Mood": st.sampled_from([0, 1]),
        "Spare": packed,
        "Share": st.floats(width=32, allow_nan=False),
    },
)
"""What only the next schema has."""


# ---- writing


class Writer:
    """Writes one message as somebody else would.

    :param random: in which order fields are written, and whether defaults are
    """

    def __init__(self, schema: ModuleType, random: Random, added: Mapping[str, Any] | None = None) -> None:
        self._schema = schema
        self._random = random
        self._added = added or {}
        self._builder = Builder(0)
        self._builder.ForceDefaults(random.random() < 0.5)

    def metadata(self, state: ExtensibleState) -> bytes:
        progress = self._vector("MetadataStartProgressVector", self._builder.PrependFloat64, state.progress)
        fields = {
            "Url": self._text(state.url),
            "ConfigOffset": state.config_offset,
            "Owned": self._tasks(state.owned),
            "Learning": self._tasks(state.learning),
            "Progress": progress if state.progress else None,
            "Ready": self._tasks(state.ready),
            "Leaving": None if state.leaving is None else self._builder.CreateString(state.leaving),
            "Slots": state.slots,
            "Weight": state.weight,
            "Epoch": state.epoch,
            "Failed": self._tasks(state.failed),
        }
        return self._message("Metadata", fields, state.version)

    def assignment(self, assignment: ExtensibleAssignment) -> bytes:
        target = assignment.target
        fields = {
            "Error": assignment.error,
            "Leader": self._text(assignment.leader),
            "LeaderUrl": self._text(assignment.leader_url),
            "ConfigOffset": assignment.config_offset,
            "Target": self._tasks(target) or self._table("Tasks", {}) if target is not None else None,
            "Revoked": self._tasks(assignment.revoked),
            "DelayMs": assignment.delay_ms,
            "Learning": self._tasks(assignment.learning),
            "Learned": self._tasks(assignment.learned),
            "AnotherRound": assignment.another_round,
            "Shutdown": assignment.shutdown,
            "Epoch": assignment.epoch,
        }
        return self._message("Assignment", fields, assignment.version)

    def _message(self, table: str, fields: dict[str, Any], version: int) -> bytes:
        self._builder.Finish(self._table(table, fields | self._additions(table)))
        return struct.pack(">h", version) + bytes(self._builder.Output())

    def _additions(self, table: str) -> dict[str, Any]:
        make: dict[str, Callable[[Any], Any]] = {
            "Host": self._builder.CreateString,
            "Disks": lambda paths: self._offsets(
                f"{table}StartDisksVector",
                [self._table("Disk", {"Path": self._builder.CreateString(path)}) for path in paths],
            ),
            "Spare": lambda tasks: self._tasks(tasks),
            "Release": lambda numbers: lambda: self._schema.CreateRelease(self._builder, *numbers),
        }
        made: dict[str, Any] = {}
        for name, value in self._added.items():
            if not hasattr(self._schema, f"{table}Add{name}"):
                continue
            if name == "Company":
                kind, word = value
                made["CompanyType"] = getattr(self._schema.Company, kind)
                text = self._builder.CreateString(word)
                made["Company"] = self._table(kind, {"Why" if kind == "Alone" else "Worker": text})
            else:
                made[name] = make[name](value) if name in make else value
        return made

    def _table(self, table: str, fields: Mapping[str, Any]) -> int:
        present = [name for name, value in fields.items() if value is not None]
        self._random.shuffle(present)
        getattr(self._schema, f"{table}Start")(self._builder)
        for name in present:
            value = fields[name]
            # A struct is written where it is, in the table.
            getattr(self._schema, f"{table}Add{name}")(self._builder, value() if callable(value) else value)
        return int(getattr(self._schema, f"{table}End")(self._builder))

    def _text(self, value: str) -> int | None:
        return self._builder.CreateString(value) if value or self._random.random() < 0.5 else None

    def _tasks(self, tasks: PackedTasks) -> int | None:
        if not tasks.sizes:
            return None
        builder = self._builder
        sizes = struct.unpack(f"<{len(tasks.sizes) // 2}H", tasks.sizes)
        counts = struct.unpack(f"<{len(tasks.counts) // 4}i", tasks.counts)
        fields = {
            "Names": builder.CreateString(tasks.names),
            "Sizes": self._vector("TasksStartSizesVector", builder.PrependUint16, sizes),
            "Counts": self._vector("TasksStartCountsVector", builder.PrependInt32, counts),
            "Indexes": self._vector("TasksStartIndexesVector", builder.PrependInt32, tasks.indexes()),
        }
        if self._added:
            labels = [builder.CreateString("label") for _ in counts]
            fields["Labels"] = self._offsets("TasksStartLabelsVector", labels)
            fields["Weights"] = self._vector("TasksStartWeightsVector", builder.PrependFloat32, [0.5] * len(tasks))
        return self._table("Tasks", fields)

    def _vector(self, start: str, prepend: Callable[[Any], None], values: Sequence[float]) -> int:
        getattr(self._schema, start)(self._builder, len(values))
        for value in reversed(values):
            prepend(value)
        return int(self._builder.EndVector())

    def _offsets(self, start: str, offsets: Sequence[int]) -> int:
        return self._vector(start, self._builder.PrependUOffsetTRelative, offsets)


# ---- reading


def read_metadata(schema: ModuleType, data: bytes) -> ExtensibleState:
    """By the accessors, which check nothing."""
    table = schema.Metadata.GetRootAs(data, 2)
    return ExtensibleState(
        version=int.from_bytes(data[:2], "big"),
        url=_read_text(table.Url()) or "",
        config_offset=table.ConfigOffset(),
        owned=_read_tasks(table.Owned()) or NOTHING,
        learning=_read_tasks(table.Learning()) or NOTHING,
        progress=tuple(table.Progress(place) for place in range(table.ProgressLength())),
        ready=_read_tasks(table.Ready()) or NOTHING,
        leaving=_read_text(table.Leaving()),
        slots=table.Slots(),
        weight=table.Weight(),
        epoch=table.Epoch(),
        failed=_read_tasks(table.Failed()) or NOTHING,
    )


def read_assignment(schema: ModuleType, data: bytes) -> ExtensibleAssignment:
    """By the accessors, which check nothing."""
    table = schema.Assignment.GetRootAs(data, 2)
    return ExtensibleAssignment(
        version=int.from_bytes(data[:2], "big"),
        error=table.Error(),
        leader=_read_text(table.Leader()) or "",
        leader_url=_read_text(table.LeaderUrl()) or "",
        config_offset=table.ConfigOffset(),
        target=_read_tasks(table.Target()),
        revoked=_read_tasks(table.Revoked()) or NOTHING,
        delay_ms=table.DelayMs(),
        learning=_read_tasks(table.Learning()) or NOTHING,
        learned=_read_tasks(table.Learned()) or NOTHING,
        another_round=table.AnotherRound(),
        shutdown=table.Shutdown(),
        epoch=table.Epoch(),
    )


def _read_text(text: bytes | None) -> str | None:
    return None if text is None else text.decode()


def _read_tasks(table: Any) -> PackedTasks | None:
    if table is None:
        return None
    sizes = [table.Sizes(place) for place in range(table.SizesLength())]
    counts = [table.Counts(place) for place in range(table.CountsLength())]
    indexes = [table.Indexes(place) for place in range(table.IndexesLength())]
    return PackedTasks(
        table.Names() or b"",
        struct.pack(f"<{len(sizes)}H", *sizes),
        struct.pack(f"<{len(counts)}i", *counts),
        struct.pack(f"<{len(indexes)}i", *indexes),
    )
