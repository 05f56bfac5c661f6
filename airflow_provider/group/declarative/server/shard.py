"""The thread that serves one shard: it loads the shard, handles what comes, and starts over after errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from airflow_provider.group.declarative.protocol.sharding import Layout
from airflow_provider.group.declarative.server.errors import (
    BlamedError,
    FencedError,
    OversizedError,
    ShardError,
    StalledError,
)
from airflow_provider.group.declarative.server.migration.bridges import Bridges
from airflow_provider.group.declarative.server.migration.crossing import Crossing
from airflow_provider.group.declarative.server.migration.joining import Look
from airflow_provider.group.declarative.server.ports import Machine, ShardLog
from airflow_provider.group.declarative.server.request_handling.faulty import Faulty
from airflow_provider.group.declarative.server.request_handling.held import Held
from airflow_provider.group.declarative.server.request_handling.inbox import Inbox
from airflow_provider.group.declarative.server.request_handling.oversized import Oversized
from airflow_provider.group.declarative.server.request_handling.serving import Clock, Serving
from airflow_provider.kafka.error_backoff import Resting
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.trouble import Trouble

log: Final = logging.getLogger(__name__)

_IDLE_S: Final = 0.5
_STALLED_MS: Final = 4_000
"""A coordinator that has stood still for this time, because brokers were away or its host was suspended, may have
missed heartbeats. It loads the shard again, and gives every member a fresh session, like a new coordinator.
"""
_STARVED_MS: Final = 10_000
"""How long requests may lie in the topic while none is read: then it is the consumer that does not work."""
_LOOK_MS: Final = 5_000
"""How often it is checked that requests are read while no timer asks for that."""
_CERTAIN_MS: Final = 1_000
"""How old the known end of the requests may be when a timer fires."""
_UNCERTAIN_S: Final = 0.02
"""After this time, a timer that must not fire yet is checked again, unless a request comes first."""
_FIRST_REST_S: Final = 0.5


def bearable_s(session_ms: int) -> float:
    """The longest pause after which members hear that an outage is over before their sessions are."""
    return session_ms / 10_000


class Shard:
    """One shard in this process, from its assignment to its revocation.

    :param machine: makes an empty state machine
    :param open_log: opens the data of the shard; this fences earlier coordinators
    :param when_loaded: called each time the shard is loaded, so that requests may come
    :param when_fenced: called when another coordinator has begun to serve it; then this thread ends
    :param when_starved: called with what is wrong when requests are not read, although there are more
    :param when_groups_change: called with the groups that have members, when they have changed
    :param look: starts to check a group for classic workers; the result comes by :meth:`Inbox.put_seen`. None: not
        checked
    :param bridges: the bridges of its groups; then groups are not checked. None: groups have none
    :param session_ms: its shortest session when this process served it last; None: not known before it is loaded
    :ivar spoken_of: whether it was logged that this shard is served here
    """

    def __init__(
        self,
        shard: int,
        layout: Layout,
        *,
        machine: Callable[[], Machine],
        open_log: Callable[[], ShardLog],
        now_ms: Clock,
        when_loaded: Callable[[], None],
        when_fenced: Callable[[], None],
        when_starved: Callable[[ShardError], None],
        when_groups_change: Callable[[frozenset[str]], None],
        look: Look | None = None,
        bridges: Bridges | None = None,
        session_ms: int | None = None,
    ) -> None:
        self.shard = shard
        self.inbox = Inbox()
        self._layout = layout
        self._make = machine
        self._open = open_log
        self._now_ms = now_ms
        self._when_loaded = when_loaded
        self._when_fenced = when_fenced
        self._when_starved = when_starved
        self._when_groups_change = when_groups_change
        self._look = look
        self._bridges = bridges
        self._held = Held()
        self._faulty = Faulty()
        self._oversized = Oversized()
        self._log: ShardLog | None = None
        self._turn_at_ms = now_ms()
        self._known: frozenset[str] = frozenset()
        self._read_to = -1
        self._certain = True
        self._end = (-1, 0)
        self._looked_at_ms = now_ms()
        self._behind_since_ms: int | None = None
        self._unserved_since_ms: int | None = now_ms()
        self._trouble = Trouble()
        self._session_ms = session_ms or machine().shortest_session_ms
        self.spoken_of = False
        self._thread = threading.Thread(target=self._run, name=f"cospark-shard-{shard}", daemon=True)

    @property
    def unserved_s(self) -> float:
        """For how many seconds it has been assigned, and not served; 0: it is served. Any thread may ask."""
        since_ms = self._unserved_since_ms
        return 0.0 if since_ms is None else (self._now_ms() - since_ms) / 1000

    @property
    def session_ms(self) -> int:
        """The shortest session of its groups, as far as it is known. Any thread may ask."""
        return self._session_ms

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Tell the thread to finish what has begun, and to end."""
        self.inbox.end()
        shard_log = self._log
        if shard_log is not None:
            shard_log.give_up()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread, and return whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        resting = Resting(_FIRST_REST_S, self._now_ms)
        while not self.inbox.ended:
            resting.begin()
            try:
                self._serve()
            except FencedError as fenced:
                log.log(logging.INFO if self.spoken_of else logging.DEBUG, "%s", fenced)
                self.spoken_of = False
                self._when_fenced()
                return
            except Exception as fault:  # noqa: BLE001  it is logged
                if self.inbox.ended and isinstance(fault, TopicError):
                    log.debug("%s", fault)  # waiting requests can't be refused; their timeouts tell the members
                    return
                self._complain(fault)
                self.spoken_of = True
                if isinstance(fault, (BlamedError, OversizedError)):
                    resting.is_well()
            if self.inbox.ended:
                return
            self.inbox.rest(resting.fault(bearable_s(self._session_ms)))

    def _complain(self, fault: Exception) -> None:
        if self._unserved_since_ms is None:
            self._unserved_since_ms = self._now_ms()
        if not isinstance(fault, TopicError):
            if self._trouble.is_news(repr(fault)):
                log.error("shard %d could not be served; loading it again", self.shard, exc_info=fault)
        elif self._trouble.is_news(str(fault)):
            since = self._trouble.lasting(", and was not for")
            log.warning("%s; shard %d will be served again when it is loaded%s", fault, self.shard, since)

    def _serve(self) -> None:
        """Load the shard, and serve it until this ends.

        :raises FencedError: another coordinator serves it
        :raises Exception: it has to be loaded again
        """
        self._log = shard_log = self._open()
        if self.inbox.ended:
            shard_log.give_up()
        machine = self._make()
        self.inbox.forget_words()
        crossing = None if self._bridges is None else Crossing(machine, self._bridges, self.inbox.put_word)
        try:
            began_ms = self._now_ms()
            serving = Serving(
                self.shard,
                self._layout,
                machine,
                shard_log,
                held=self._held,
                faulty=self._faulty,
                oversized=self._oversized,
                now_ms=self._now_ms,
                look=self._look,
                crossing=crossing,
            )
            count = serving.load()
            self.inbox.pass_over(shard_log.handled_to())
            log.info("serving shard %d: loaded %d records in %d ms", self.shard, count, self._now_ms() - began_ms)
            self._trouble.over()
            self._unserved_since_ms = None
            self._session_ms = serving.shortest_session_ms
            self.spoken_of = True
            self._turn_at_ms, self._behind_since_ms = self._now_ms(), None
            self._known = frozenset()  # this machine was told nothing of them yet
            self._tell(serving)
            self._when_loaded()
            while not self.inbox.ended:
                self._turn(serving, shard_log)
            serving.hand_over()
        finally:
            if crossing is not None:
                crossing.close()
            self._log = None
            shard_log.close()

    def _turn(self, serving: Serving, shard_log: ShardLog) -> None:
        taken = self.inbox.take(self._patience_s(serving))
        try:
            self._check_not_stalled()
            if taken.requests or taken.jobs or taken.seen or taken.words:
                serving.handle(taken.requests, taken.jobs, taken.seen.values(), taken.words)
        except BaseException:
            self.inbox.put_back(taken)
            raise
        self._session_ms = serving.shortest_session_ms
        if taken.read_to > self._read_to:
            self._read_to, self._behind_since_ms = taken.read_to, None
        if self._timer_is_due(serving):
            self._certain = self._has_read_all(shard_log)
            if self._certain:
                serving.fire()
        elif serving.timer_at_ms is None:
            self._look_for_unread(shard_log)
        self._tell(serving)

    def _check_not_stalled(self) -> None:
        """Check the time since the last turn.

        :raises StalledError: it is too long
        """
        now_ms = self._now_ms()
        stood_ms, self._turn_at_ms = now_ms - self._turn_at_ms, now_ms
        if stood_ms > _STALLED_MS:
            raise StalledError(f"shard {self.shard} stood still for {stood_ms} ms")

    def _patience_s(self, serving: Serving) -> float:
        if serving.timer_at_ms is None:
            return _IDLE_S
        least_s = 0.0 if self._certain else _UNCERTAIN_S
        return min(_IDLE_S, max(least_s, (serving.timer_at_ms - self._now_ms()) / 1000))

    def _timer_is_due(self, serving: Serving) -> bool:
        return serving.timer_at_ms is not None and serving.timer_at_ms <= self._now_ms()

    def _look_for_unread(self, shard_log: ShardLog) -> None:
        """Check from time to time that requests are read: without members there are no timers, and nobody could join.
        An outage is no reason to load the shard again, because no member can have been silent meanwhile.
        """
        if self._now_ms() - self._looked_at_ms < _LOOK_MS:
            return
        try:
            self._has_read_all(shard_log)
        except ShardError as unknown:
            log.debug("%s", unknown)
        finally:
            self._looked_at_ms = self._turn_at_ms = self._now_ms()

    def _has_read_all(self, shard_log: ShardLog) -> bool:
        """Whether all requests have been handled that were written up to a second ago. Otherwise, a member could be
        taken for silent although its heartbeat is in the topic.
        """
        end, asked_ms = self._end
        if self._now_ms() - asked_ms > _CERTAIN_MS:
            asked_ms = self._now_ms()
            end = shard_log.end()
            self._end = end, asked_ms
        if self._read_to >= end:
            self._behind_since_ms = None
        elif self._behind_since_ms is None:
            self._behind_since_ms = self._now_ms()
        elif self._now_ms() - self._behind_since_ms > _STARVED_MS:
            self._behind_since_ms = None
            self._when_starved(
                ShardError(f"the requests of shard {self.shard} are not read any more, although there are more")
            )
        return self._read_to >= end

    def _tell(self, serving: Serving) -> None:
        groups = serving.groups
        if len(groups) != len(self._known) or not self._known.issuperset(groups):
            self._known = frozenset(groups)
            self._when_groups_change(self._known)
