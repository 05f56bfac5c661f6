"""The events for which a DAG run was started, each once.

Earlier asset events are read only if one may have been stored twice: Airflow 3.3 does not answer that while a run that
was started for one of them, of any DAG, is queued.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from airflow.sdk import Asset

_LOOKED_BACK: Final = 1_000
"""In asset events. Airflow only stores one twice after a triggerer has died, as one of the first that follow."""


def told_once(
    triggering_asset_events: Mapping[Asset, Sequence[Any]], inlet_events: Mapping[Asset, Any] | None = None
) -> list[dict[str, Any]]:
    """The events of groups for which this DAG run was started, the oldest first, each as
    :class:`~airflow_provider.triggers.group_event.GroupEventTrigger` has sent it.

    :param triggering_asset_events: as in the task's context
    :param inlet_events: likewise. If given, and the assets are among the task's ``inlets``, events that were stored for
        an earlier run are left out
    """
    came = sorted(chain.from_iterable(triggering_asset_events.values()), key=_stored_at)
    told: dict[str, dict[str, Any]] = {}
    for event in _told(came):
        told.setdefault(event["id"], event)
    if inlet_events is not None and any(payload.get("perhaps_again") for payload in _payloads(came)):
        for asset in triggering_asset_events:
            here = {event.timestamp for event in came}
            before = _newest(inlet_events[asset], came[0].timestamp)
            for event in _told(event for event in before if event.timestamp not in here):
                told.pop(event["id"], None)
    return list(told.values())


def _newest(asset_events: Any, at: datetime) -> Iterable[Any]:
    """The newest of those that were stored up to then."""
    if isinstance(asset_events, list):  # before Airflow 3.2: all of them
        return nlargest(_LOOKED_BACK, (event for event in asset_events if event.timestamp <= at), key=_stored_at)
    newest: Iterable[Any] = asset_events.before(at.isoformat()).ascending(False).limit(_LOOKED_BACK)
    return newest


def _told(asset_events: Iterable[Any]) -> Iterable[dict[str, Any]]:
    return (event for payload in _payloads(asset_events) for event in payload["events"])


def _stored_at(asset_event: Any) -> datetime:
    stored: datetime = asset_event.timestamp
    return stored


def _payloads(asset_events: Iterable[Any]) -> Iterable[dict[str, Any]]:
    """The payloads that our watchers have sent."""
    payloads = ((event.extra or {}).get("payload") for event in asset_events)
    return (payload for payload in payloads if isinstance(payload, dict) and "events" in payload)
