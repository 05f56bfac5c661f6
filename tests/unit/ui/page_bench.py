"""The page's application for tests: groups without a broker, and users that Airflow's auth manager knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, cast

from airflow.api_fastapi.app import create_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI
from fastapi.testclient import TestClient
from page_routes import Route, routes_of

from airflow_provider.hooks.shown_connections import Connections, Named
from airflow_provider.integration.memberships.group_now import GroupNow
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.errors import TopicError
from airflow_provider.kafka.topics.feeds.timeline_feed import TimelineFeed
from airflow_provider.kafka.topics.followed import FollowedTopics
from airflow_provider.state.views.jobs_view import JobsSnapshot
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.ui.allowed_acts import PageActions
from airflow_provider.ui.app import make_app
from airflow_provider.ui.shared_reading.watching import Listing, WatchedGroup, Watches
from airflow_provider.ui.world import World


def settings_of(name: Named) -> KafkaSettings:
    return KafkaSettings.from_extra({"bootstrap.servers": "broker.example:9092"}, conn_id=str(name))


SETTINGS = settings_of(Named("kafka_default"))


@dataclass
class StillTopics:
    """The topics of a group, of which everything has been read."""

    group: str = "etl"
    jobs: JobsSnapshot = field(default_factory=JobsSnapshot)
    status: StatusSnapshot = field(default_factory=StatusSnapshot)
    caught_up: bool = True
    away: str | None = None
    problem: TopicError | None = None
    renewals: Mapping[str, int] = field(default_factory=dict)
    events: TimelineFeed = field(default_factory=lambda: TimelineFeed("etl.events"))

    def follow_timeline(self) -> TimelineFeed:
        return self.events

    def watched(self, clock: Callable[[], float]) -> WatchedGroup:
        topics = cast("FollowedTopics", self)
        return WatchedGroup(topics, GroupNow(topics), 0.0, clock=clock)


class StillCluster:
    """A cluster with these groups, all of which are read.

    :ivar looked: the groups that were looked at
    """

    def __init__(self, *groups: StillTopics) -> None:
        self.now = 0.0
        self.looked: list[str] = []
        self.groups = {topics.group: topics.watched(lambda: self.now) for topics in groups}

    def look(self, group: str) -> WatchedGroup | None:
        self.looked.append(group)
        return self.groups.get(group)

    def look_at_all(self) -> tuple[Listing, list[WatchedGroup]]:
        return Listing(names=tuple(self.groups)), list(self.groups.values())


class StillWatches(Watches):
    def __init__(self, clusters: Mapping[KafkaSettings, StillCluster]) -> None:
        super().__init__()
        self._still = clusters

    def of(self, settings: KafkaSettings) -> Any:
        return self._still[settings]


@dataclass
class Page:
    """:ivar noted: what the audit log was told"""

    app: FastAPI
    cluster: StillCluster
    noted: list[tuple[str, str, str]]

    @property
    def begun(self) -> list[tuple[str, str, str]]:
        """What the audit log was told of acts that nothing had refused so far."""
        return [note for note in self.noted if not note[0].endswith("_refused")]

    def some_time_passes(self) -> None:
        self.cluster.now += 60.0

    @contextmanager
    def browser(self, role: str | None, teams: Sequence[str] = ()) -> Iterator[TestClient]:
        """:param role: of Airflow's simple auth manager, empty for a user without one; None: nobody has logged in"""
        create_auth_manager()
        if role is not None:
            user = SimpleAuthManagerUser(username="ann", role=role or None, teams=list(teams))
            self.app.dependency_overrides[get_user] = lambda: user
        try:
            yield TestClient(self.app, raise_server_exceptions=False)
        finally:
            self.app.dependency_overrides.clear()

    @property
    def routes(self) -> list[Route]:
        return routes_of(self.app)


def make_page(
    *groups: StillTopics,
    actions: PageActions = PageActions.ALL,
    others: Mapping[Named, StillCluster] = MappingProxyType({}),
) -> Page:
    """One page at a time: the next one takes the application over.

    :param groups: of the connection ``kafka_default``
    :param actions: what the page may do
    :param others: the clusters of other connections
    """
    noted: list[tuple[str, str, str]] = []
    cluster = StillCluster(*groups)
    clusters = {Named("kafka_default"): cluster, **others}
    world = World(
        connections=Connections(lambda: clusters, settings_of),
        watches=StillWatches({settings_of(name): its for name, its in clusters.items()}),
        actions=lambda: actions,
        note=lambda event, by, extra: noted.append((event, by, extra)),
    )
    app = _app()
    app.state.world = world
    return Page(app, cluster, noted)


@cache
def _app() -> FastAPI:
    """Made once, because its routes take long to read. Its world is all that it keeps."""
    return make_app(World(connections=Connections(dict, settings_of)))
