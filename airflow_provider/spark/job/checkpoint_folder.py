"""The folder of a task's streaming checkpoint.

This is ``<root>/<group>/<job>/<index>``, or ``<root>/<group>/<job>/key=<checkpoint_key>`` if the task's configuration
has a ``checkpoint_key``. All workers must be able to reach the root: a shared folder or an object store. A worker
without a root runs only bounded tasks, because a stream would begin again wherever it moves to.

The folder depends neither on the worker nor on the run key. So a query that moves to another worker continues where it
stopped, and so does the next run of a job that reads what is new (``availableNow``). To make a job begin again, give it
a new name, or remove the job and delete its folder.

The index is a good name as long as it always means the same work. If a planner's list grows in the middle (for example,
tables found in a catalog), work moves from one index to another, and a query must not continue from the checkpoint of
other work. Such a planner has to name the work with ``checkpoint_key``.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any, Final

from airflow_provider.spark.job import Config
from airflow_provider.state.records import CHECKPOINT_KEY
from airflow_provider.values.model import TaskId

TEMPORARY: Final = "temporary"
"""A root for trials: a temporary folder on each worker's machine."""

_FROM_EVERYWHERE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
"""The prefix of names that mean the same folder in every process: absolute paths, and URIs with one."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
"""Characters that are written as ``~`` and hex digits. Not with percent signs: file systems differ in how they read
them.
"""


class CheckpointError(ValueError):
    """A checkpoint has no folder: there is no root, or a name can't be that of a folder."""


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
    """The root of the checkpoints of ``task``. For a bounded task, which may start a query that ends by itself, this is
    a temporary folder if the worker has no root.

    :param given: the worker's root: a folder, a URI or :data:`TEMPORARY`; None: it has none
    :raises CheckpointError: if the task is unbounded, and the worker has no root; if others can write to the temporary
        folder
    """
    if given is None and not bounded:
        raise CheckpointError(
            f"task {task} streams, and its worker has no checkpoint_root: give all workers of the group the same folder"
            f" or URI that all of them reach; for trials on one machine, {TEMPORARY!r}"
        )
    if given is None or given == TEMPORARY:
        return _folder_of_this_user()
    return given


def _folder_of_this_user() -> str:
    """The same for all processes of this user on this machine. Others may have made one of its name first, to read what
    is written there, or to have Spark read what they have written. So each start of a task looks at it; to make a
    ``Path`` would take longer than to look.
    """
    folder = f"{tempfile.gettempdir()}/cospark-checkpoints-{os.geteuid()}"
    try:
        found = _made(folder)
    except OSError as failed:
        raise CheckpointError(f"the folder of temporary checkpoints can't be made: {failed}") from failed
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CheckpointError(
            f"{folder} is not a folder of this user alone, so no checkpoint is safe there: remove it, or give the"
            " worker a checkpoint_root"
        )
    return folder


def _made(folder: str) -> os.stat_result:
    """What is there; if nothing is, a folder is made first.

    :raises OSError: if it can't be made or looked at
    """
    try:
        return os.lstat(folder)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another process has been faster
            Path(folder).mkdir(mode=0o700)
        return os.lstat(folder)


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
