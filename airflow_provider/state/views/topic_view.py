"""Builds a value from the records of a compacted topic. Pure: records go in one by one, snapshots come out.

Parsing a record takes milliseconds, and applying the parsed record almost no time. So parse before you lock a view.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Final, Generic, NamedTuple, TypeVar

from airflow_provider.state.records import Key, KeyKind, UnreadableRecordError, decode, parse_key

_MOST_SHOWN: Final = 300

S = TypeVar("S")
K = TypeVar("K")
R = TypeVar("R")


class About(Flag):
    """The subject of a change. A group of a thousand workers has a thousand listeners, and few changes concern all of
    them.
    """

    NOTHING = 0
    JOBS = auto()
    """The jobs topic."""
    ROUNDS = auto()
    """The group's record."""
    WORKERS = auto()
    TASKS = auto()
    HINTS = auto()
    """A record that was just written hints at a rebalance; see module ``hints``."""
    EVERYTHING = JOBS | ROUNDS | WORKERS | TASKS


_SUBJECTS: Final = {
    KeyKind.JOB: About.JOBS,
    KeyKind.PLAN: About.JOBS,
    KeyKind.CONTROL: About.JOBS,
    KeyKind.HALT: About.JOBS,
    KeyKind.HALT_TASK: About.JOBS,
    KeyKind.REBALANCE: About.JOBS,
    KeyKind.RESTART: About.JOBS,
    KeyKind.LEVELS: About.JOBS,
    KeyKind.RESTART_TASK: About.JOBS,
    KeyKind.GROUP: About.ROUNDS,
    KeyKind.WORKER: About.WORKERS,
    KeyKind.TASK: About.TASKS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A record that was skipped, its offset, and the reason."""

    key: bytes | None
    offset: int
    reason: str

    def __str__(self) -> str:
        key, reason = _shortened(repr(self.key)), _shortened(self.reason)
        return f"the record at offset {self.offset} with key {key} can't be read and is skipped: {reason}"


class Parsed(NamedTuple):
    """A parsed record.

    :param key: None: the record can't be read
    :param content: the new value of the key; None deletes it
    """

    offset: int
    key: Key | None = None
    content: Any = None


def reason_of(wrong: Exception) -> str:
    """The error of a parser in words. For anything but a ValueError, with its type, because its text says little."""
    return str(wrong) if isinstance(wrong, ValueError) else f"{type(wrong).__name__}: {wrong}"


def _shortened(text: str) -> str:
    """Others have written the text, so it may be as long as a record."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def ignore_unreadable(_record: Unreadable) -> None:
    """Counting it in the snapshot is enough."""


class TopicView(ABC, Generic[S]):
    """The state of a topic. Not thread-safe: its owner takes care of that.

    :param on_unreadable: called with each record that can't be read, before it is skipped
    """

    def __init__(self, on_unreadable: Callable[[Unreadable], None] = ignore_unreadable) -> None:
        self._on_unreadable = on_unreadable
        self._unreadable = 0
        self._offset = 0
        self._renewals = 0
        self._snapshot: S | None = None
        self._news = About.NOTHING
        self._clear()

    @property
    def offset(self) -> int:
        """The offset after the last record read."""
        return self._offset

    @property
    def renewals(self) -> int:
        """How often the topic was found deleted and created again."""
        return self._renewals

    def apply(self, key: bytes | None, value: bytes | None, offset: int) -> int:
        """Parse one record and apply it; ``value`` None deletes the key.

        :returns: the offset to read next
        """
        return self.take(self.parse(key, value, offset))

    def parse(self, key: bytes | None, value: bytes | None, offset: int) -> Parsed:
        """Parse one record. This changes nothing, so others may take snapshots meanwhile."""
        try:
            parsed = parse_key(key)
            return Parsed(offset, parsed, self._parse(parsed, value))
        except Exception as wrong:  # noqa: BLE001  whatever it is: others' topics are read in this thread, too
            self._on_unreadable(Unreadable(key=key, offset=offset, reason=reason_of(wrong)))
            return Parsed(offset)

    def take(self, parsed: Parsed) -> int:
        """Apply the next record, parsed by :meth:`parse`.

        If an offset comes again, the topic was deleted and created again: all earlier records are gone.

        :returns: the offset to read next
        """
        if parsed.offset < self._offset:
            self._begin_anew()
        self._offset = parsed.offset  # everything before this record has been read
        if parsed.key is None:
            self._unreadable += 1
            self._news |= About.EVERYTHING
        else:
            self._put(parsed.key, parsed.content)
            subject = _SUBJECTS[parsed.key.kind]
            if self._news is not subject:  # many records of one kind come together, and flags are slow
                self._news |= subject
        self._offset = parsed.offset + 1
        self._snapshot = None
        return self._offset

    def advance(self, offset: int) -> int:
        """The topic has been read up to ``offset``. There may be no record right before it, because of compaction.

        If a topic ends before what was read from it, it was deleted and created again.

        :returns: the offset to read next
        """
        if offset < self._offset:
            self._begin_anew()
        if offset > self._offset:
            self._offset = offset
            self._snapshot = None
            self._news = About.EVERYTHING
        return self._offset

    def all_is_news(self) -> None:
        """This view replaces another one, so everything may have changed. Its records are old, and hint at nothing."""
        self._news = About.EVERYTHING

    def take_news(self) -> About:
        """What has changed since the last call."""
        news, self._news = self._news, About.NOTHING
        return news

    def snapshot(self) -> S:
        """An immutable snapshot of what was read so far. Copied only if something has changed since the last one."""
        if self._snapshot is None:
            self._snapshot = self._take_snapshot()
        return self._snapshot

    def _begin_anew(self) -> None:
        self._clear()
        self._unreadable = self._offset = 0
        self._renewals += 1
        self._snapshot = None
        self._news = About.EVERYTHING

    @abstractmethod
    def _parse(self, key: Key, value: bytes | None) -> Any:
        """The new value of a record's key; None if it deletes the key.

        :raises ValueError: if it can't be read, or does not belong in this topic
        """

    @abstractmethod
    def _put(self, key: Key, content: Any) -> None:
        """Apply a record."""

    @abstractmethod
    def _clear(self) -> None:
        """Begin without any record."""

    @abstractmethod
    def _take_snapshot(self) -> S: ...


def read_value(value: bytes, from_json: Callable[[dict[str, object]], R], name_of: Callable[[R], K], name: K) -> R:
    """The record in ``value``, which must name the same thing as its key does.

    :raises ValueError: if it can't be read or names something else
    """
    record = from_json(decode(value))
    if name_of(record) != name:
        raise UnreadableRecordError(f"the key names {name!r}, the value {name_of(record)!r}")
    return record


def put(known: dict[K, R], name: K, record: R | None) -> None:
    """Keep the record under its name, or none."""
    if record is None:
        known.pop(name, None)
    else:
        known[name] = record
