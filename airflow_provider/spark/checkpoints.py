"""Where a task keeps its streaming checkpoint.

``<root>/<group>/<job>/<index>``, or ``<root>/<group>/<job>/key=<checkpoint_key>`` where the task's configuration has a
``checkpoint_key``. The root must be reachable from every worker: a shared folder or an object store. A worker that was
without one runs bounded tasks only: a stream would begin again wherever it moves to.

The folder depends neither on who runs the task nor on the run key. A query that moves to another worker goes on where
it stopped, and so does the next run of a job that reads what is new (``availableNow``): that is what such jobs are
for. A job that shall begin again gets a new name, or its folder is deleted while it is not submitted.

The index is a good name as long as a task index always means the same work. A planner whose list grows in the middle
(tables found in a catalog, say) moves work from one index to another, and a query must not go on from the checkpoint
of other work: such a planner names the work with ``checkpoint_key``.
"""

from __future__ import annotations

import re
import tempfile
from typing import Any, Final

from airflow_provider.protocol.model import TaskId
from airflow_provider.records import CHECKPOINT_KEY
from airflow_provider.spark.job import Config

TEMPORARY: Final = "temporary"
"""A root for trials: a folder among the temporary files of each worker's machine."""

_FROM_EVERYWHERE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
"""The prefix of names that mean the same folder in every process: absolute paths, and URIs with one."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
"""What is written as ``~`` and hex digits: percent signs are read differently by the file systems below Spark."""


class CheckpointError(ValueError):
    """A checkpoint that has no folder: a name that cannot be one, or no root."""


def usable_root(given: str | None) -> str | None:
    """Check a worker's root, and return it unchanged. None: it has none.

    :raises CheckpointError: if each process would look for it in another folder
    """
    if given is not None and given != TEMPORARY and not _FROM_EVERYWHERE.match(given):
        raise CheckpointError(
            f"{given!r} is neither an absolute path nor a URI: each worker, and a Spark Connect server, would look for"
            f" it in the folder where it was started. Use an absolute path; for trials on one machine, {TEMPORARY!r}"
        )
    return given


def checkpoint_root(given: str | None, task: TaskId, *, bounded: bool) -> str:
    """Where the checkpoints of ``task`` are. Of a bounded one, which may start a query that ends by itself, among the
    machine's temporary files if need be.

    :param given: what the worker was told: a folder, a URI, :data:`TEMPORARY`; None: nothing
    :raises CheckpointError: if the task runs without end, and the worker was given none
    """
    if given is None and not bounded:
        raise CheckpointError(
            f"task {task} streams, and its worker has no checkpoint_root: give all workers of the group the same folder"
            f" or URI that all of them reach; for trials on one machine, {TEMPORARY!r}"
        )
    if given is None or given == TEMPORARY:
        return f"{tempfile.gettempdir()}/cospark-checkpoints"
    return given


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
