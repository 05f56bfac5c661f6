"""Where a task keeps its streaming checkpoint.

``<root>/<group>/<job>/<index>``, or ``<root>/<group>/<job>/key=<checkpoint_key>`` where the task's configuration has a
``checkpoint_key``. The root must be reachable from every worker: a shared folder or an object store.

The folder depends neither on who runs the task nor on the run key. A query that moves to another worker goes on where
it stopped, and so does the next run of a job that reads what is new (``availableNow``): that is what such jobs are
for. A job that shall begin again gets a new name, or its folder is deleted while it is not submitted.

The index is a good name as long as a task index always means the same work. A planner whose list grows in the middle
(tables found in a catalog, say) moves work from one index to another, and a query must not go on from the checkpoint
of other work: such a planner names the work with ``checkpoint_key``.
"""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_provider.membership.model import TaskId
from airflow_provider.spark.job import Config

CHECKPOINT_KEY: Final = "checkpoint_key"

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
"""What is written as ``~`` and hex digits: percent signs are read differently by the file systems below Spark."""


class CheckpointError(ValueError):
    """A name that cannot be a folder."""


def checkpoint_location(root: str, group_id: str, task: TaskId, config: Config) -> str:
    """The checkpoint folder of ``task``: a path or URI as ``root`` is.

    :raises CheckpointError: if group, job or key cannot be a folder's name
    """
    key = config.get(CHECKPOINT_KEY)
    last = str(task.index) if key is None else f"key={_segment(CHECKPOINT_KEY, key)}"
    return "/".join([root.rstrip("/"), _segment("group", group_id), _segment("job", task.job), last])


def check_segment(what: str, name: Any) -> None:
    """:raises CheckpointError: if ``name`` cannot be a folder's name"""
    if not isinstance(name, str):
        raise CheckpointError(f"{what} must be a string, not {name!r}")
    if not name or name in {".", ".."} or len(name) > 200:
        raise CheckpointError(f"{what} {name!r} cannot be the name of a folder; use 1 to 200 letters and digits")


def _segment(what: str, name: Any) -> str:
    check_segment(what, name)
    return _UNSAFE.sub(lambda match: "".join(f"~{byte:02x}" for byte in match[0].encode()), name)
