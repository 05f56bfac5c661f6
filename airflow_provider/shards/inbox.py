"""What waits for the thread that serves a shard."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from airflow_provider.protocol.model import Tasks
from airflow_provider.shards.bridges import BridgeWord
from airflow_provider.shards.classic import Seen
from airflow_provider.shards.requests import RawRequest

FULL: Final = 10_000
"""So many requests that wait are enough: the others wait in their topic."""
_BATCH: Final = 1_000


class Taken(NamedTuple):
    """:param jobs: what is configured, by group
    :param read_to: with these the topic has been read to this offset, if not farther
    :param seen: of groups in the classic protocol, by group
    :param words: of the groups' bridges, in their order
    """

    requests: Sequence[RawRequest]
    jobs: dict[str, Tasks]
    read_to: int
    seen: dict[str, Seen]
    words: Sequence[BridgeWord]


class Inbox:
    """Filled by other threads, emptied by one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: deque[RawRequest] = deque()
        self._jobs: dict[str, Tasks] = {}
        self._seen: dict[str, Seen] = {}
        self._words: list[BridgeWord] = []
        self._read_to = -1
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    def __len__(self) -> int:
        return len(self._requests)

    def put(self, requests: Sequence[RawRequest]) -> None:
        with self._changed:
            self._requests.extend(requests)
            self._read_to = max(self._read_to, requests[-1].offset + 1)
            self._changed.notify()

    def reached(self, offset: int) -> None:
        """The topic ends, for now, at this offset."""
        with self._changed:
            self._read_to = max(self._read_to, offset)
            self._changed.notify()

    def put_jobs(self, group: str, tasks: Tasks) -> None:
        """What is configured in a group; it takes the place of what was put before."""
        with self._changed:
            self._jobs[group] = tasks
            self._changed.notify()

    def put_seen(self, seen: Seen) -> None:
        """What was to be known of a group in the classic protocol."""
        with self._changed:
            self._seen[seen.group] = seen
            self._changed.notify()

    def put_word(self, word: BridgeWord) -> None:
        """What the bridge of a group says."""
        with self._changed:
            self._words.append(word)
            self._changed.notify()

    def forget_words(self) -> None:
        """The bridges are other ones from now on."""
        with self._changed:
            self._words.clear()

    def put_back(self, taken: Taken) -> None:
        """What was not done is to be done again, before all that follows."""
        with self._changed:
            self._requests.extendleft(reversed(taken.requests))
            self._jobs = {**taken.jobs, **self._jobs}
            self._seen = {**taken.seen, **self._seen}
            self._words = [*taken.words, *self._words]

    def pass_over(self, offset: int) -> None:
        """The requests before this one were handled, by whomever."""
        with self._changed:
            while self._requests and self._requests[0].offset < offset:
                self._requests.popleft()

    def end(self) -> None:
        """Nothing of it is to be done any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def take(self, timeout_s: float) -> Taken:
        """Wait until there is something, or this has ended, but not longer than that."""
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
        """Wait for its end, but not longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, timeout_s)
