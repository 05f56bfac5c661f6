"""The queue of the thread that serves a shard."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from airflow_provider.group.declarative.protocol.exchange import RawRequest
from airflow_provider.group.declarative.server.migration.bridges import BridgeWord
from airflow_provider.group.declarative.server.migration.classic_workers import Seen
from airflow_provider.values.model import Tasks

FULL: Final = 10_000
"""The number of waiting requests from which on others are left in their topic."""
_BATCH: Final = 1_000


class Taken(NamedTuple):
    """What was taken out of the queue.

    :param jobs: the configured tasks, by group
    :param read_to: with these requests, the topic has been read at least to this offset
    :param seen: what was found in the classic protocol, by group
    :param words: what the groups' bridges have said, in this order
    """

    requests: Sequence[RawRequest]
    jobs: dict[str, Tasks]
    read_to: int
    seen: dict[str, Seen]
    words: Sequence[BridgeWord]


class Inbox:
    """A queue that is filled by many threads, and emptied by one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: deque[RawRequest] = deque()
        self._jobs: dict[str, Tasks] = {}
        self._seen: dict[str, Seen] = {}
        self._words: list[BridgeWord] = []
        self._read_to = -1
        self._begins_at = 0
        self._ended = False

    @property
    def ended(self) -> bool:
        """Whether the thread is to end."""
        return self._ended

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, requests: Sequence[RawRequest]) -> None:
        """Put requests, at least one, in the order of their offsets."""
        with self._changed:
            self._requests.extend(raw for raw in requests if raw.offset >= self._begins_at)
            self._read_to = max(self._read_to, requests[-1].offset + 1)
            self._changed.notify()

    def reached(self, offset: int) -> None:
        """Note that the topic ends at this offset for now."""
        with self._changed:
            self._read_to = max(self._read_to, offset)
            self._changed.notify()

    def put_jobs(self, group: str, tasks: Tasks) -> None:
        """Put the configured tasks of a group. They replace earlier ones that still wait."""
        with self._changed:
            self._jobs[group] = tasks
            self._changed.notify()

    def put_seen(self, seen: Seen) -> None:
        """Put what was found of a group in the classic protocol."""
        with self._changed:
            self._seen[seen.group] = seen
            self._changed.notify()

    def put_word(self, word: BridgeWord) -> None:
        """Put what the bridge of a group says."""
        with self._changed:
            self._words.append(word)
            self._changed.notify()

    def forget_words(self) -> None:
        """Drop what bridges have said, because new ones are opened now."""
        with self._changed:
            self._words.clear()

    def put_back(self, taken: Taken) -> None:
        """Put back what was not handled, before everything else."""
        with self._changed:
            self._requests.extendleft(reversed(taken.requests))
            self._jobs = {**taken.jobs, **self._jobs}
            self._seen = {**taken.seen, **self._seen}
            self._words = [*taken.words, *self._words]

    def pass_over(self, offset: int) -> None:
        """Drop the requests before this offset, even those that will be read later: they were handled already, perhaps
        by another coordinator after the consumer here was told where to begin.
        """
        with self._changed:
            self._begins_at = offset
            while self._requests and self._requests[0].offset < offset:
                self._requests.popleft()

    def end(self) -> None:
        """Tell the thread to end."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def take(self, timeout_s: float) -> Taken:
        """Take what waits. If there is nothing, wait for something, or for the end, for at most this time."""
        with self._changed:
            if not (self._requests or self._jobs or self._seen or self._words or self._ended):
                self._changed.wait(timeout_s)
            count = min(len(self._requests), _BATCH)
            jobs, self._jobs = self._jobs, {}
            seen, self._seen = self._seen, {}
            words, self._words = self._words, []
            requests = [self._requests.popleft() for _ in range(count)]
            return Taken(requests, jobs, self._requests[0].offset if self._requests else self._read_to, seen, words)

    def rest(self, timeout_s: float) -> None:
        """Wait for the end, for at most this time."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, timeout_s)
