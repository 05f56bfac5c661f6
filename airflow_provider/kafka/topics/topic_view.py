"""How records of a compacted topic become a value. Pure: records go in one by one, snapshots come out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Final, Generic, TypeVar

from airflow_provider.kafka.records import Key, KeyKind, UnreadableRecordError, decode, parse_key

_MOST_SHOWN: Final = 300

S = TypeVar("S")
K = TypeVar("K")
R = TypeVar("R")


class About(Flag):
    """What a change is about, or what somebody wants to hear about: a group of a thousand workers has a thousand who
    listen, and hardly anything concerns them all.
    """

    NOTHING = 0
    JOBS = auto()
    """The jobs topic."""
    ROUNDS = auto()
    """The group's record."""
    WORKERS = auto()
    TASKS = auto()
    EVERYTHING = JOBS | ROUNDS | WORKERS | TASKS


_SUBJECTS: Final = {
    KeyKind.JOB: About.JOBS,
    KeyKind.PLAN: About.JOBS,
    KeyKind.CONTROL: About.JOBS,
    KeyKind.GROUP: About.ROUNDS,
    KeyKind.WORKER: About.WORKERS,
    KeyKind.TASK: About.TASKS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A record that was skipped, where it lies, and why."""

    key: bytes | None
    offset: int
    reason: str

    def __str__(self) -> str:
        key, reason = _shortened(repr(self.key)), _shortened(self.reason)
        return f"the record at offset {self.offset} with key {key} can't be read and is skipped: {reason}"


def reason_of(wrong: Exception) -> str:
    """What a parser says of a record. What is no ValueError it has not foreseen, and its text says little."""
    return str(wrong) if isinstance(wrong, ValueError) else f"{type(wrong).__name__}: {wrong}"


def _shortened(text: str) -> str:
    """Somebody else wrote it: it may be as long as a record."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def ignore_unreadable(_record: Unreadable) -> None:
    """Counting it in the snapshot is enough."""


class TopicView(ABC, Generic[S]):
    """What a topic adds up to. Not safe for threads: whoever owns a view takes care of that.

    :param on_unreadable: is told of each record that can't be read, before it is skipped
    """

    def __init__(self, on_unreadable: Callable[[Unreadable], None] = ignore_unreadable) -> None:
        self._on_unreadable = on_unreadable
        self._unreadable = 0
        self._offset = 0
        self._renewals = 0
        self._snapshot: S | None = None
        self._news = About.NOTHING

    @property
    def offset(self) -> int:
        """The offset after the last record read."""
        return self._offset

    @property
    def renewals(self) -> int:
        """How often the topic was found to have been deleted and made anew."""
        return self._renewals

    def apply(self, key: bytes | None, value: bytes | None, offset: int) -> int:
        """Take in one record; ``value`` None deletes what the key names.

        An offset that comes again means that the topic was deleted and made anew: what it held is gone.

        :returns: the offset to read next
        """
        if offset < self._offset:
            self._begin_anew()
        self._offset = offset  # everything before this record has been read
        try:
            parsed = parse_key(key)
            self._put(parsed, value)
            self._news |= _SUBJECTS[parsed.kind]
        except Exception as wrong:  # noqa: BLE001  whatever it is: others' topics are read in this thread, too
            self._unreadable += 1
            self._news = About.EVERYTHING
            self._on_unreadable(Unreadable(key=key, offset=offset, reason=reason_of(wrong)))
        self._offset = offset + 1
        self._snapshot = None
        return self._offset

    def advance(self, offset: int) -> int:
        """The topic has been read up to ``offset``, though maybe no record stands right before it: compaction took it.

        A topic that ends before what was read from it was deleted and made anew, too.

        :returns: the offset to read next
        """
        if offset < self._offset:
            self._begin_anew()
        if offset > self._offset:
            self._offset = offset
            self._snapshot = None
            self._news = About.EVERYTHING
        return self._offset

    def take_news(self) -> About:
        """What has changed since this was last asked."""
        news, self._news = self._news, About.NOTHING
        return news

    def snapshot(self) -> S:
        """What has been read so far; never changes. Copied only if there was a change since the last one."""
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
    def _put(self, key: Key, value: bytes | None) -> None:
        """Take in one record.

        :raises ValueError: if it can't be read
        """

    @abstractmethod
    def _clear(self) -> None:
        """Forget every record."""

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


def keep(
    known: dict[K, R],
    name: K,
    value: bytes | None,
    from_json: Callable[[dict[str, object]], R],
    name_of: Callable[[R], K],
) -> None:
    """Put the record in ``value`` under its name, or delete what is there if the value is None.

    :raises ValueError: if the record can't be read or names something else
    """
    if value is None:
        known.pop(name, None)
    else:
        known[name] = read_value(value, from_json, name_of, name)
