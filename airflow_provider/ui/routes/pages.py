"""What a browser is sent: with each view of a group its head, which says how well the group can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider.hooks.shown_connections import Named
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.ui.shared_reading.watching import MOST_GROUPS, Seen, WatchedGroup, Watches
from airflow_provider.ui.views.groups import GroupInShort


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A group, and how well it can be read.

    :param reading: its topics are being read for the first time, and nothing else is known yet
    :param away: why no broker can be reached; the page shows what was last known
    :param problem: why the topics can't be read; likewise
    """

    conn: str
    group: str
    reading: bool
    away: str = ""
    problem: str = ""
    short: GroupInShort | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """A view of a group.

    :param body: what the view shows; None: nothing is known yet
    """

    head: Head
    body: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The groups of one connection.

    :param listing: its groups are being listed for the first time
    :param problem: why they can't be listed now
    :param more: how many groups are not shown
    """

    conn: str
    listing: bool
    problem: str
    groups: tuple[Head, ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """The groups of all connections.

    :param version: if it is the same as before, nothing has changed
    """

    version: str
    clusters: tuple[Cluster, ...]


def begun(conn: str, group: str) -> GroupPage:
    """A group of which nothing is known yet."""
    return GroupPage(head=Head(conn=conn, group=group, reading=True), body=None)


def head_of(conn: str, watched: WatchedGroup, seen: Seen) -> Head:
    known = seen.whole and not seen.missing
    return Head(
        conn=conn,
        group=seen.group,
        reading=not seen.whole and not seen.away and not seen.problem,
        away=seen.away,
        problem=seen.problem,
        short=watched.short(seen) if known else None,
    )


def clusters(connections: Mapping[Named, KafkaSettings | str], watches: Watches) -> Clusters:
    """These connections with their groups; begins to read groups that are not read yet."""
    versions, found = [], []
    for name, settings in connections.items():
        conn = str(name)
        if isinstance(settings, str):
            found.append(Cluster(conn=conn, listing=False, problem=settings, groups=(), more=0))
            versions.append(f"{conn} {settings}")
            continue
        listing, groups = watches.of(settings).look_at_all()
        seen = [(group, group.seen()) for group in groups]
        names = listing.names or ()
        heads = {one.group: head_of(conn, group, one) for group, one in seen}
        found.append(
            Cluster(
                conn=conn,
                listing=listing.names is None and not listing.problem,
                problem=listing.problem,
                groups=tuple(heads.get(group) or begun(conn, group).head for group in names[:MOST_GROUPS]),
                more=max(0, len(names) - MOST_GROUPS),
            )
        )
        versions.append(f"{conn} {names} {listing} {[(one.group, one.version) for _, one in seen]}")
    return Clusters(version="\n".join(versions), clusters=tuple(found))
