"""The names of tasks: if its plan gives a task a name, people see it behind job and index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CHECKPOINT_KEY: Final = "checkpoint_key"
"""The key in a task's config with the name of its checkpoint, if that is not the task's index."""
WEIGHT: Final = "weight"
"""The key in a task's config, as a planner returns it, that says how much work the task is compared with the others."""
_NAMED_BY: Final = ("name", CHECKPOINT_KEY)
"""The name is the first of these in a task's config that is a text."""
_LONGEST: Final = 60


def task_name(config: Mapping[str, Any]) -> str:
    """The name that the plan gives the task, in one printable line of at most 60 characters; empty: none.

    Nothing is refused, as a job may mean something else by ``name``.
    """
    given = next((text for key in _NAMED_BY if isinstance(text := config.get(key), str) and text.strip()), "")
    head = " ".join(given[: 4 * _LONGEST].split())
    name = head if head.isprintable() else "".join(char if char.isprintable() else "?" for char in head)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
