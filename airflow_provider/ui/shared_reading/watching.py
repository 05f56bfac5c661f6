"""Reads the groups that somebody looks at, and stops when nobody does any more.

A page asks again and again. A request only notes what is looked at, and gets what has been read by then. One thread per
cluster lists groups, and starts and stops reading them, so that no request waits for a broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from airflow_provider.integration.memberships.group_now import ClusterNow, GroupNow
from airflow_provider.kafka.clock import wall_ms
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.administration.topic_admin import TopicAdmin
from airflow_provider.kafka.topics.errors import NoTopicError, TopicError
from airflow_provider.kafka.topics.feeds.timeline_feed import TimelineFeed
from airflow_provider.kafka.topics.followed import FollowedTopics
from airflow_provider.kafka.topics.outage import Outage
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.shared_reading.kept_tasks import KeptTasks
from airflow_provider.ui.shared_reading.waiting_limit import Turns
from airflow_provider.ui.views.groups import GroupInShort, group_in_short
from airflow_provider.ui.views.tasks import FoundTask
from airflow_provider.values.deadlines import DeadlineError, wait_at_most
from airflow_provider.values.memo import Memo

log: Final = logging.getLogger(__name__)

LET_GO_S: Final = 60.0
"""So many seconds after the last request, a group is no longer read."""
MOST_GROUPS: Final = 200
"""The most groups of a cluster that are read; if there are more, the ones that were looked at last."""

_LIST_AGAIN_S: Final = 3.0
_LIST_TIMEOUT_S: Final = 10.0
_TICK_S: Final = 1.0
_HOLD_S: Final = 0.5
"""A group's snapshot is renewed after so many seconds, as a browser asks every second."""
_REST: Final = 5
"""Or after this multiple of the time that it took to show it, so that the API server has time for everything else."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A group, as far as it has been read.

    :param whole: its topics have been read to their ends once
    :param away: why no broker can be reached at present, so that this is getting old; empty: one can
    :param problem: why it can't be read, so that this is getting old; empty: it can
    :param missing: there is no such group
    :param at_ms: the time of the snapshot, wall clock
    :param version: if it is the same as before, nothing has changed, and no delay has ended
    """

    group: str
    jobs: JobsSnapshot
    status: StatusSnapshot
    whole: bool
    away: str
    problem: str
    missing: bool
    at_ms: int
    version: str


class WatchedGroup:
    """A group that somebody looks at.

    :param now: the topics, with the coordinator's word
    :ivar asked_at: the time of the last request
    """

    def __init__(
        self, topics: FollowedTopics, now: GroupNow, asked_at: float, *, clock: Clock = time.monotonic
    ) -> None:
        self._topics = topics
        self._now = now
        self.asked_at = asked_at
        self._clock = clock
        self._tasks = KeptTasks()
        self._short: Memo[Seen, GroupInShort] = Memo()
        self._looking, self._turns = threading.Lock(), Turns()
        self._seen: Seen | None = None
        self._look_again_at = 0.0
        self._worked_s = 0.0

    def seen(self) -> Seen:
        """A snapshot of the group, up to a moment old: a group may change at any moment, and all viewers should share
        what is computed from a snapshot.
        """
        with self._looking:
            if self._seen is None or not self._seen.whole or self._clock() >= self._look_again_at:
                self._seen = self._look()
                self._look_again_at = self._clock() + max(_HOLD_S, _REST * self._worked_s)
                self._worked_s = 0.0
            return self._seen

    @contextmanager
    def working(self) -> Iterator[None]:
        """Hold this while something is computed from a snapshot, one at a time. The longer that takes, the longer the
        snapshot is used.

        :raises BusyError: if too many wait for it
        """
        with self._turns.mine():
            began = self._clock()
            yield
            self._worked_s += self._clock() - began

    def _look(self) -> Seen:
        topics = self._topics
        jobs, status, problem, away = topics.jobs, self._now.status, topics.problem, topics.away or ""
        missing = isinstance(problem, NoTopicError)
        words = "" if problem is None else str(problem)
        renewals = sum(topics.renewals.values())
        at_ms = wall_ms()
        delayed = status.group is not None and status.group.deadline_ms > at_ms
        flags = f"{topics.caught_up:d}{delayed:d}{status.deserted:d}"
        version = f"{jobs.offset}.{status.offset}.{renewals}.{flags}.{hash((words, away)) & 0xFFFFFFFF:x}"
        return Seen(
            group=topics.group,
            jobs=jobs,
            status=status,
            whole=topics.caught_up,
            away=away,
            problem=words,
            missing=missing,
            at_ms=at_ms,
            version=version,
        )

    def short(self, seen: Seen) -> GroupInShort:
        """The summary, which is shown with each view, and made once for all of them."""
        return self._short.get(seen, lambda: group_in_short(seen.group, seen.jobs, seen.status, now_ms=seen.at_ms))

    def tasks(self, seen: Seen) -> Sequence[FoundTask]:
        """All of its tasks, from which pages are cut."""
        return self._tasks.of(seen.version, seen.jobs, seen.status)

    def events(self) -> TimelineFeed:
        """Its timeline; the events topic is read from the first call on."""
        return self._topics.follow_timeline()

    async def aclose(self) -> None:
        await self._topics.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The groups of a cluster.

    :param names: None: not known yet
    :param problem: why they can't be listed now; empty: they can
    """

    names: tuple[str, ...] | None = None
    problem: str = ""


class ClusterWatch:
    """One cluster that somebody looks at. Its thread ends when nobody does any more.

    :param settings: how to reach it
    """

    def __init__(self, settings: KafkaSettings, *, clock: Clock = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._groups: dict[str, WatchedGroup] = {}
        self._wanted: dict[str, float] = {}
        self._begun_at = clock()
        self._all_asked_at: float | None = None
        self._listing = Listing()
        self._admin: TopicAdmin | None = None
        self._ended = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="cospark-page", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return self._ended

    def look(self, group: str) -> WatchedGroup | None:
        """A group that is being read. None: reading it is about to begin, ask again."""
        with self._lock:
            found = self._groups.get(group)
            if found is not None:
                found.asked_at = self._clock()
                return found
            self._wanted[group] = self._clock()
        self._tell()
        return None

    def look_at_all(self) -> tuple[Listing, list[WatchedGroup]]:
        """All groups that can be seen, and those of them that are being read."""
        with self._lock:
            begun = self._all_asked_at is None
            self._all_asked_at = self._clock()
            names = (self._listing.names or ())[:MOST_GROUPS]
            found = [self._groups[name] for name in names if name in self._groups]
            for group in found:
                group.asked_at = self._clock()
            self._wanted.update((name, self._clock()) for name in names if name not in self._groups)
        if begun or len(found) < len(names):
            self._tell()
        return self._listing, found

    def close(self) -> None:
        """Stop reading everything, and wait until that is done."""
        with self._lock:
            self._ended = True
        self._tell()
        self._thread.join()

    def _tell(self) -> None:
        loop = self._loop
        if loop is not None:
            try:
                loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:  # the loop has just ended
                log.debug("the watch of %s ends", self._settings.bootstrap_servers)

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except Exception:
            log.exception("%s: the page reads no groups of this cluster, until somebody asks again", self._settings)
        finally:
            with self._lock:
                self._ended = True

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        listing: asyncio.Future[None] | None = None
        try:
            while not self._ended:
                self._wake.clear()
                await self._begin()
                await self._let_go()
                if self._is_listed and (listing is None or listing.done()):
                    listing = asyncio.ensure_future(self._list())
                self._end_if_unused()
                with contextlib.suppress(DeadlineError):
                    await wait_at_most(_TICK_S, self._wake.wait())
        finally:
            if listing is not None:
                listing.cancel()
            if self._admin is not None:
                self._admin.close()
            with self._lock:
                groups, self._groups = self._groups, {}
            await self._close(groups)

    async def _begin(self) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, {}
        for name, asked_at in wanted.items():
            if name in self._groups:  # requested again while it was being opened
                continue
            topics = FollowedTopics(self._settings, name)
            await asyncio.to_thread(topics.attach)
            now = ClusterNow.of(self._settings).watch(name, topics)
            with self._lock:
                self._groups[name] = WatchedGroup(topics, now, asked_at)

    async def _let_go(self) -> None:
        now = self._clock()
        with self._lock:
            by_age = sorted(self._groups, key=lambda name: self._groups[name].asked_at, reverse=True)
            old = [name for name in by_age[:MOST_GROUPS] if now - self._groups[name].asked_at > LET_GO_S]
            unwatched = {name: self._groups.pop(name) for name in (*old, *by_age[MOST_GROUPS:])}
        await self._close(unwatched)

    async def _close(self, groups: Mapping[str, WatchedGroup]) -> None:
        for name, group in groups.items():
            ClusterNow.of(self._settings).forget(name)
            await group.aclose()

    @property
    def _is_listed(self) -> bool:
        """Whether somebody looks at all groups."""
        return self._all_asked_at is not None and self._clock() - self._all_asked_at <= LET_GO_S

    def _end_if_unused(self) -> None:
        with self._lock:
            unused = not self._is_listed and not self._groups and not self._wanted
            if unused and self._clock() - self._begun_at > LET_GO_S:  # whoever has just started it is about to ask
                self._ended = True

    async def _list(self) -> None:
        try:
            if self._admin is None:
                outage = Outage(self._settings.bootstrap_servers)
                self._admin = await asyncio.to_thread(TopicAdmin, self._settings.librdkafka(), outage)
            names = await self._admin.groups(timeout_s=_LIST_TIMEOUT_S)
            self._listing = Listing(names=tuple(names))
        except TopicError as failed:
            self._listing = Listing(names=self._listing.names, problem=str(failed))
        await asyncio.sleep(_LIST_AGAIN_S)


class Watches:
    """The clusters that somebody looks at."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clusters: dict[KafkaSettings, ClusterWatch] = {}

    def of(self, settings: KafkaSettings) -> ClusterWatch:
        """The watch of a cluster, started if it does not run."""
        with self._lock:
            watch = self._clusters.get(settings)
            if watch is None or watch.ended:
                self._clusters = {key: kept for key, kept in self._clusters.items() if not kept.ended}
                watch = self._clusters[settings] = ClusterWatch(settings)
            return watch

    def close(self) -> None:
        with self._lock:
            clusters, self._clusters = list(self._clusters.values()), {}
        for watch in clusters:
            watch.close()
