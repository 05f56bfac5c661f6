"""What the page's routes share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import Depends, Request

from airflow_provider.hooks.shown_connections import Connections
from airflow_provider.hooks.unstarted_workers import HeldTasks
from airflow_provider.integration.airflow_metadata.audit_log import note_in_audit_log
from airflow_provider.integration.links import airflow_base_url
from airflow_provider.ui.allowed_acts import PageActions, configured_actions
from airflow_provider.ui.shared_reading.answers import Answers
from airflow_provider.ui.shared_reading.waiting_limit import Turns
from airflow_provider.ui.shared_reading.watching import Watches

MOST_ACTS: Final = 8
"""The most actions at a time. Each waits for a broker, for half a minute if that is away, in one of the 40 threads in
which the API server answers all its requests, including the heartbeats of Airflow's tasks.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What all routes use.

    :param connections: the clusters that may be shown
    :param note: writes an action into Airflow's audit log: its name, the user, and the rest as JSON
    :param actions: returns what the page may do
    :param base_url: returns with what the addresses of this Airflow's pages begin
    :param held_up: says why Airflow does not start the task instances with these pages, if a team may be told
    :param listing: held while all groups are listed, one at a time
    :param acts: held by each thread that carries out an action
    """

    connections: Connections
    note: Callable[[str, str, str], None] = note_in_audit_log
    actions: Callable[[], PageActions] = configured_actions
    base_url: Callable[[], str] = airflow_base_url
    held_up: Callable[[Iterable[str], str | None], Mapping[str, str]] = field(default_factory=HeldTasks)
    watches: Watches = field(default_factory=Watches)
    answers: Answers = field(default_factory=Answers)
    listing: Turns = field(default_factory=Turns)
    acts: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(MOST_ACTS))


def world_of(request: Request) -> World:
    world: World = request.app.state.world
    return world


ItsWorld = Annotated[World, Depends(world_of)]
