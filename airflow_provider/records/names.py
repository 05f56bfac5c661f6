"""What people call a task: where its plan names it, that name stands behind its job and index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CHECKPOINT_KEY: Final = "checkpoint_key"
"""In a task's configuration: the name of its checkpoint, where that is not the task's index."""
WEIGHT: Final = "weight"
"""In what a plan says of a task: how much work it is, beside the others."""
_NAMED_BY: Final = ("name", CHECKPOINT_KEY)
"""The first of these in a task's configuration that is a text."""
_LONGEST: Final = 60


def task_name(config: Mapping[str, Any]) -> str:
    """What the plan calls the task, in one printable line of at most 60 characters; empty: nothing.

    A job may mean something else by ``name``, so nothing is refused.
    """
    given = next((text for key in _NAMED_BY if isinstance(text := config.get(key), str) and text.strip()), "")
    head = " ".join(given[: 4 * _LONGEST].split())
    name = head if head.isprintable() else "".join(char if char.isprintable() else "?" for char in head)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
