"""What a browser is sent: with each view of a group its head, and what to know of how it is read."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.ui.views.groups import GroupInShort
from airflow_provider.ui.watching import MOST_GROUPS, Seen, WatchedGroup
from airflow_provider.ui.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A group and how it is read.

    :param reading: its topics are being read for the first time; there is nothing else yet
    :param away: why no broker can be reached; what is shown is the last that was known
    :param problem: why the topics can't be read; the same
    """

    conn: str
    group: str
    reading: bool
    away: str = ""
    problem: str = ""
    short: GroupInShort | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPage:
    """:param body: what the view shows; None: nothing is known yet"""

    head: Head
    body: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The groups of one connection.

    :param listing: they are looked for, and nothing is known yet
    :param problem: why they can't be looked for now
    :param more: how many there are that are not shown
    """

    conn: str
    listing: bool
    problem: str
    groups: tuple[Head, ...]
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """:param version: the same as before: nothing has changed"""

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


def clusters(world: World) -> Clusters:
    versions, found = [], []
    for conn, settings in world.connections.all().items():
        if isinstance(settings, str):
            found.append(Cluster(conn=conn, listing=False, problem=settings, groups=(), more=0))
            versions.append(f"{conn} {settings}")
            continue
        listing, groups = world.watches.of(settings).look_at_all()
        seen = [(group, group.seen()) for group in groups]
        names = listing.names or ()
        heads = {one.group: head_of(conn, group, one) for group, one in seen}
        found.append(
            Cluster(
                conn=conn,
                listing=listing.names is None and not listing.problem,
                problem=listing.problem,
                groups=tuple(heads.get(name) or begun(conn, name).head for name in names[:MOST_GROUPS]),
                more=max(0, len(names) - MOST_GROUPS),
            )
        )
        versions.append(f"{conn} {names} {listing} {[(one.group, one.version) for _, one in seen]}")
    return Clusters(version="\n".join(versions), clusters=tuple(found))
