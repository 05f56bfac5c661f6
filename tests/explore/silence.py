"""What becomes of the flights of a process that no longer waits for them."""

from __future__ import annotations

from dataclasses import replace

from explore.group import Group
from explore.normal import Nodes, World
from explore.values import AFTER, AWAITED, BEFORE, Flight, Way, unheard

from airflow_provider.group.classic.member.events import RequestFailed, SendHeartbeat


def without_waiting(world: World, nodes: Nodes, mark: str, *, ended: bool) -> World:
    """The world after a process asks again and no longer waits for its earlier requests.

    :param ended: whether its membership has ended: it waits for nothing at all
    """
    flights = []
    for node in world.flights:
        flight: Flight = node.value
        left = _given_up(flight, ended=ended) if flight.mark == mark else flight
        if left is not None:
            flights.append(nodes.of(left))
    group: Group = world.group.value
    nobody = unheard(mark)
    members = tuple(
        member._replace(
            join=nobody if member.join == mark else member.join, sync=nobody if member.sync == mark else member.sync
        )
        for member in group.members
    )
    return world._replace(flights=tuple(flights), group=nodes.of(group._replace(members=members)))


def without_process(world: World, nodes: Nodes, mark: str, *, killed: bool) -> World:
    """The world after a process is gone. What it has sent still arrives; a record that it was about to write, only if
    it ended by itself.
    """
    stays = tuple(node for node in world.flights if not _ends_with(node.value, mark, killed=killed))
    processes = tuple(node for node in world.processes if node.value.mark != mark)
    return without_waiting(world._replace(flights=stays, processes=processes), nodes, mark, ended=True)


def _ends_with(flight: Flight, mark: str, *, killed: bool) -> bool:
    return flight.mark == mark and (flight.way is Way.STOP or (killed and flight.way is Way.WRITE))


def _given_up(flight: Flight, *, ended: bool) -> Flight | None:
    """The flight after its process has stopped waiting for it."""
    if flight.way is Way.WRITE:
        return flight._replace(mark=unheard(flight.mark)) if ended else flight
    if flight.way is Way.STOP:
        return flight
    if flight.way is Way.REQUEST:
        if ended or (flight.seq == AWAITED and not isinstance(flight.what, SendHeartbeat)):
            return flight._replace(mark=unheard(flight.mark), seq=BEFORE)
        return flight._replace(seq=BEFORE)
    if ended or flight.way is not Way.ANSWER or flight.seq == AWAITED:
        return None
    event = flight.what
    if flight.seq == AFTER and isinstance(event, RequestFailed):
        event = replace(event, seq=BEFORE)
    return flight._replace(seq=BEFORE, what=event)
