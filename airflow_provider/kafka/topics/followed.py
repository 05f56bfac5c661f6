"""Follows the topics of a group: the jobs, the state of tasks and workers, and their changes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics import clients
from airflow_provider.kafka.topics.errors import (
    BrokerAwayError,
    NoTopicError,
    TopicError,
    TopicRenewedError,
    TopicRightsError,
    TopicTimeoutError,
)
from airflow_provider.kafka.topics.feeds.event_feed import EventFeed
from airflow_provider.kafka.topics.feeds.feed import GroupFeed
from airflow_provider.kafka.topics.feeds.timeline_feed import TimelineFeed
from airflow_provider.kafka.topics.rights import WATCHER, Needs, Operation
from airflow_provider.state.records import TopicNames
from airflow_provider.state.views.group_view import ChangingView
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.state.views.topic_view import About
from airflow_provider.values.deadlines import DeadlineError, Patience, wait_at_most

if TYPE_CHECKING:
    from typing_extensions import Self

DEFAULT_TIMEOUT_S: Final = 30.0
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,242}")
"""The names of groups that can have topics. Kafka accepts more names for groups."""


class FollowedTopics:
    """The jobs, status and events topics of one group, as far as they have been read. Belongs to one event loop.

    It costs little: all users of a connection in a process share its clients, and the views of a group.

    :param settings: the connection
    :param group: the group's id
    :param needs: the rights that the connection's user must have
    """

    def __init__(self, settings: KafkaSettings, group: str, needs: Needs = WATCHER) -> None:
        self.group = group
        self._needs = needs
        self.names = TopicNames.of(group)
        self._settings = settings
        self._clients: clients.Clients | None = None
        self._feed: GroupFeed | None = None
        self._timeline: TimelineFeed | None = None
        self._ends: Mapping[str, int] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def attach(self) -> None:
        """Begin to read, without creating topics or checking rights. :meth:`catch_up` fails if a topic is missing.

        :raises NoTopicError: if the group's name can't be part of a topic's name
        """
        self._acquire()
        self._open().follow(self._followed())

    async def start(self, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Check the rights, create missing topics if ``needs`` says so, and begin to read.

        :raises NoTopicError: if a topic is missing and ``needs`` does not say to create it
        :raises RightsError: if a topic is missing and may not be created, or the user lacks rights
        :raises RefusedError: if the broker refuses the connection
        :raises BrokerAwayError: if no broker answers in time
        :raises TopicError: if a topic can't be used
        """
        self._acquire()
        try:
            await self._prepare(self._needs, timeout_s)
        except BaseException:
            await self.aclose()
            raise

    async def start_for(self, needs: Needs, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Do the same as :meth:`start` for an additional user of these topics, with needs of its own. A failure does
        not affect the others.

        :raises TopicError: see :meth:`start`
        """
        self._acquire()
        await self._prepare(needs, timeout_s)

    async def _prepare(self, needs: Needs, timeout_s: float) -> None:
        """Check the rights before anything is done, so that nothing is done by halves.

        The result is remembered. If a right is taken away later, this shows when it is used.
        """
        if needs.writes:
            self._open().warm_up()
        feed = self._followed()
        async with feed.preparing():
            if needs not in feed.granted:
                await self._open().admin.prepare(self.names, needs, timeout_s=timeout_s)
                feed.granted.add(needs)
        self._open().follow(feed)

    async def aclose(self) -> None:
        """Stop reading. The last user of the clients waits until pending records are written. May be called again."""
        if self._clients is None:
            return
        if self._timeline is not None:
            self._clients.reader.unfollow((self.names.events,))
        self._clients = self._feed = self._timeline = None
        unused = clients.release(self._settings, self.group)
        if unused is not None:
            await asyncio.to_thread(unused.close)

    @property
    def jobs(self) -> JobsSnapshot:
        """The jobs topic, as far as it has been read."""
        return self._followed().jobs.snapshot()

    @property
    def status(self) -> StatusSnapshot:
        """The status topic, as far as it has been read."""
        return self._followed().status.snapshot()

    def follow_events(self) -> EventFeed:
        """Begin to read the events topic, too, from its beginning. It takes some time to reach the end."""
        return self._open().follow_events(self._followed())

    async def end_of_events(self, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
        """The end offset of the events topic; 0 if there is no such topic. Does not begin to read it.

        :raises TopicRightsError: if it may not be read, as far as this is known
        :raises TopicError: see :meth:`TopicAdmin.end_offsets`
        """
        self._acquire()
        try:
            return (await self._open().admin.end_offsets((self.names.events,), timeout_s=timeout_s))[self.names.events]
        except NoTopicError:
            return 0
        except TopicRightsError as refused:  # name the right to read, which the caller will need
            raise TopicRightsError(self.names.events, Operation.READ.value, refused.principal) from refused

    @property
    def unread(self) -> Mapping[str, tuple[int, int]]:
        """The topics that have not been read to the ends of the last :meth:`catch_up`: the offset that was reached, and
        the end.
        """
        feed = self._followed()
        read = {self.names.jobs: feed.jobs.offset, self.names.status: feed.status.offset}
        return {topic: (read[topic], end) for topic, end in self._ends.items() if read[topic] < end}

    @property
    def caught_up(self) -> bool:
        """Whether both topics have been read to their ends once. Before, the views are incomplete."""
        feed = self._followed()
        return feed.jobs.whole and feed.status.whole

    @property
    def away(self) -> str | None:
        """Why no broker can be reached at present; None: one can be, as far as is known."""
        outage = self._open().outage
        refusal = outage.refusal
        if refusal is not None:
            return str(refusal)
        return f"no broker of {outage.servers} can be reached ({outage.reason})" if outage.away else None

    def follow_timeline(self) -> TimelineFeed:
        """Begin to read the last events of the group, for a timeline. It ends when this is closed."""
        if self._timeline is None:
            self._timeline = TimelineFeed(self.names.events)
            self._open().reader.follow({self.names.events: self._timeline})
        return self._timeline

    @property
    def missing(self) -> str | None:
        """The name of a topic that does not exist, if that has been so for some seconds."""
        return self._followed().missing

    @property
    def problem(self) -> TopicError | None:
        """Why one of the topics can't be read at present."""
        return self._followed().problem

    @property
    def fault(self) -> TopicError | None:
        """Why one of the topics is no longer read, so that the views are outdated."""
        return self._followed().fault

    @property
    def cluster(self) -> str:
        """Kafka's id of the cluster that the topics are in; empty if it is not known."""
        return self._open().reader.cluster

    @property
    def renewals(self) -> Mapping[str, int]:
        """How often each topic was found to have been deleted and created again since this process began to read it."""
        return self._followed().renewals

    async def catch_up(self, *, timeout_s: float | None = None) -> None:
        """Wait until everything has been read that was in the jobs and status topics when this was called. On a busy
        machine, this may take minutes for a large group.

        :param timeout_s: the longest time; None: as long as there is progress
        :raises TopicTimeoutError: if the topics have not been read in time, although the broker can be reached
        :raises NoTopicError, RightsError: if a topic can't be read
        :raises RefusedError: if the broker refuses the connection
        :raises TopicRenewedError: if a topic was deleted and created again since this process began to read it
        :raises BrokerAwayError: if no broker answers in time
        """
        feed, jobs, status = self._followed(), self.names.jobs, self.names.status
        read = {jobs: feed.jobs.offset, status: feed.status.offset}
        patience = Patience(timeout_s, step_s=DEFAULT_TIMEOUT_S, reached=(feed.jobs.offset, feed.status.offset))
        ends = await self._open().admin.end_offsets((jobs, status), timeout_s=patience.left_s())
        for topic in read:
            if ends[topic] < read[topic]:
                raise TopicRenewedError(topic)
        self._ends = ends
        while True:
            try:
                await self._wait(
                    lambda: feed.jobs.offset >= ends[jobs] and feed.status.offset >= ends[status],
                    timeout_s=patience.left_s(),
                    waiting_for="the end of the topics",
                )
                return
            except TopicTimeoutError:
                # What is written after the ends is no progress: one topic may go on while the other one can't be read.
                if not patience.lasts((min(feed.jobs.offset, ends[jobs]), min(feed.status.offset, ends[status]))):
                    raise

    async def wait_for(
        self,
        predicate: Callable[[JobsSnapshot, StatusSnapshot], bool],
        *,
        timeout_s: float | None = None,
        seen: ChangingView | None = None,
    ) -> None:
        """Wait until ``predicate`` holds. It is called now, and after each change.

        :param seen: these topics as somebody sees them who knows more than what they say
        :raises TopicTimeoutError: if it does not hold in time, although the broker can be reached
        :raises BrokerAwayError: if it does not hold in time, and no broker can be reached
        :raises TopicError: if a topic can't be read
        """
        view = seen or self
        await self._wait(
            lambda: predicate(view.jobs, view.status), timeout_s=timeout_s, waiting_for="a change", seen=view
        )

    def subscribe(self, listener: Callable[[], None], about: About = About.EVERYTHING) -> Callable[[], None]:
        """Call ``listener`` in the running loop soon after each change, perhaps once for several changes.

        :param about: the kinds of changes for which it is called
        :returns: a function that ends this
        """
        return self._followed().changes.listen(listener, about)

    async def _wait(
        self,
        holds: Callable[[], bool],
        *,
        timeout_s: float | None,
        waiting_for: str,
        seen: ChangingView | None = None,
    ) -> None:
        feed, outage = self._followed(), self._open().outage
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look() -> None:
            if done.done():
                return
            try:
                if holds():
                    done.set_result(None)
                elif feed.problem is not None:
                    done.set_exception(feed.problem)
            except Exception as error:  # noqa: BLE001  of the predicate: it is raised at the waiting caller
                done.set_exception(error)

        stop = (seen or self).subscribe(look)
        look()
        try:
            await wait_at_most(timeout_s, done)
        except DeadlineError:
            doing = f"waiting for {waiting_for} of group {self.group!r}"
            if outage.away:
                raise BrokerAwayError(outage.servers, doing, outage.reason) from None
            raise TopicTimeoutError(f"{doing}: not within {timeout_s:.3g} s") from None
        finally:
            stop()

    def _acquire(self) -> None:
        """Get the clients. The name is checked first: one that librdkafka does not accept would end the consumer, which
        reads for all other groups, too.

        :raises NoTopicError: if the group's name can't be part of a topic's name
        """
        if _NAME.fullmatch(self.group) is None:
            raise NoTopicError(self.names.jobs)
        if self._clients is None:
            self._clients, self._feed = clients.acquire(self._settings, self.group)

    def _open(self) -> clients.Clients:
        if self._clients is None:
            raise TopicError(f"the topics of group {self.group!r} are not open: call start() first")
        return self._clients

    def _followed(self) -> GroupFeed:
        self._open()
        assert self._feed is not None
        return self._feed
