"""How records of a compacted topic become a value. Pure: records go in one by one, snapshots come out.

To parse a record takes milliseconds, and to take in what was parsed next to nothing: who holds a lock on a view
parses before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Final, Generic, NamedTuple, TypeVar

from airflow_provider.records import Key, KeyKind, UnreadableRecordError, decode, parse_key

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
    """A record that was skipped, where it lies, and why."""

    key: bytes | None
    offset: int
    reason: str

    def __str__(self) -> str:
        key, reason = _shortened(repr(self.key)), _shortened(self.reason)
        return f"the record at offset {self.offset} with key {key} can't be read and is skipped: {reason}"


class Parsed(NamedTuple):
    """A record as it can be taken in.

    :param key: None if the record can't be read
    :param content: what to put under the key; None deletes what is there
    """

    offset: int
    key: Key | None = None
    content: Any = None


def reason_of(wrong: Exception) -> str:
    """What a parser says of a record. What is no ValueError it has not foreseen, and its text says little."""
    return str(wrong) if isinstance(wrong, ValueError) else f"{type(wrong).__name__}: {wrong}"


def _shortened(text: str) -> str:
    """Somebody else wrote it: it may be as long as a record."""
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def ignore_unreadable(_record: Unreadable) -> None:
    """Counting it in the snapshot is enough."""


class TopicView(ABC, Generic[S]):
    """What a topic adds up to. Not safe for threads: its owner takes care of that.

    :param on_unreadable: called with each record that can't be read, before it is skipped
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
        """Parse one record and take it in; ``value`` None deletes what the key names.

        :returns: the offset to read next
        """
        return self.take(self.parse(key, value, offset))

    def parse(self, key: bytes | None, value: bytes | None, offset: int) -> Parsed:
        """One record. Changes nothing: others may ask for snapshots meanwhile."""
        try:
            parsed = parse_key(key)
            return Parsed(offset, parsed, self._parse(parsed, value))
        except Exception as wrong:  # noqa: BLE001  whatever it is: others' topics are read in this thread, too
            self._on_unreadable(Unreadable(key=key, offset=offset, reason=reason_of(wrong)))
            return Parsed(offset)

    def take(self, parsed: Parsed) -> int:
        """Take in what :meth:`parse` has made of the next record.

        An offset that comes again means that the topic was deleted and made anew: what it held is gone.

        :returns: the offset to read next
        """
        if parsed.offset < self._offset:
            self._begin_anew()
        self._offset = parsed.offset  # everything before this record has been read
        if parsed.key is None:
            self._unreadable += 1
            self._news = About.EVERYTHING
        else:
            self._put(parsed.key, parsed.content)
            self._news |= _SUBJECTS[parsed.key.kind]
        self._offset = parsed.offset + 1
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

    def all_is_news(self) -> None:
        """It comes in the place of another view: anything may be different, and what is not in it is gone."""
        self._news = About.EVERYTHING

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
    def _parse(self, key: Key, value: bytes | None) -> Any:
        """What a record puts under its key; None if it deletes what is there.

        :raises ValueError: if it can't be read, or does not belong in this topic
        """

    @abstractmethod
    def _put(self, key: Key, content: Any) -> None:
        """Take in what a record says."""

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


def put(known: dict[K, R], name: K, record: R | None) -> None:
    """Keep the record under its name, or none."""
    if record is None:
        known.pop(name, None)
    else:
        known[name] = record
