"""What the people who run a group ask of one worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any

from airflow_provider.state.records.envelope import COUNT, TEXT, convert
from airflow_provider.values.model import WorkerId


class ControlAction(str, Enum):
    """What the people who run a group may ask of a worker."""

    DRAIN = "drain"
    """Leave the group when the running tasks have finished."""
    STOP = "stop"
    """Stop the running tasks and leave the group."""
    LEAVE_SOON = "leave soon"
    """Leave the group when its batch tasks have finished, and others have learned and taken over the rest. Where tasks
    are not learned, it drains.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Soon:
    """The field by which a request to leave soon differs in JSON from one to drain."""

    learned_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """A request to one worker.

    :param at_ms: wall clock, milliseconds since 1970; for people. Whether the worker had begun by then is decided by
        offsets, as its clock is another one
    :param within_ms: so long after it has read this, the worker stops what still runs and leaves; None: no limit
    :param by: who asks, for people
    """

    worker: Annotated[WorkerId, TEXT]
    action: ControlAction
    at_ms: Annotated[int, COUNT]
    within_ms: Annotated[int, COUNT] | None = None
    by: Annotated[str, TEXT] = ""

    def to_json(self) -> dict[str, Any]:
        # As a request to drain for releases without learning, which could not read an unknown action.
        soon = self.action is ControlAction.LEAVE_SOON
        return {
            "worker": self.worker,
            "action": (ControlAction.DRAIN if soon else self.action).value,
            "at_ms": self.at_ms,
            **({"learned_first": True} if soon else {}),
            **({} if self.within_ms is None else {"within_ms": self.within_ms}),
            **({"by": self.by} if self.by else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ControlRecord:
        """The inverse of :meth:`to_json`.

        :raises ValueError: for anything else, naming the field
        """
        wish = convert(data, cls)
        soon = convert(data, _Soon).learned_first
        return replace(wish, action=ControlAction.LEAVE_SOON) if soon else wish
