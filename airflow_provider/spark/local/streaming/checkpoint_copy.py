"""A copy of a stream's checkpoint as it was before its last batch. A query that starts from it repeats that batch, as
if the real query had been interrupted in it.

A copy is deleted by its process, at the latest when the JVM ends properly. If the process was killed, the next one that
makes a copy beside it removes it. It can't see whether the copy is in use: the user may be on another machine. So each
copy has a sign of life, the time of its newest file. This file is written first, and again and again while the copy is
used. Times are compared as the file system reports them, so they are the same for all machines.
"""

from __future__ import annotations

import json
import logging
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.local.streaming.checkpoint_files import FILE, WHOLE, list_files, newest_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OTHERS: Final = ("offsets", "state", "sources")
"""Listed after the commits, so that they contain everything that the last commit needs."""
_COMPACTED: Final = frozenset({".compact"})
"""The files of a source that need no file of an older batch (Spark's ``CompactibleFileStreamLog``)."""

_ID: Final = "metadata"
"""The file with the query's id. It is also the sign of life."""
_PREFIX: Final = "rehearsal-"
"""How the name of a copy begins. No checkpoint's name begins like this (``spark/job/checkpoint_folder.py``)."""
_SIGN_EVERY_S: Final = 60.0
ABANDONED_MS: Final = 15 * 60_000
"""A copy without a sign of life for this long is not in use. If a process was suspended for longer, its own copy may be
gone; then its rehearsal fails, which does no harm.
"""

log = logging.getLogger(__name__)


def before(batch: int, paths: Iterable[str]) -> list[str]:
    """The files of a checkpoint that a query needs to repeat this batch.

    :param paths: all files, relative to the checkpoint's folder
    """
    folders: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    needed: list[str] = []
    for path in paths:
        top, found = path.partition("/")[0], FILE.fullmatch(path)
        if found is None:
            if not path.rpartition("/")[2].startswith("."):
                needed.append(path)  # it has no version: a schema, or a part of several versions (RocksDB)
        elif top == "sources" or int(found["version"]) <= _latest(top, batch):
            folders[found["folder"]].append((int(found["version"]), found["kind"] or "", path))
    for folder, files in folders.items():
        top = folder.partition("/")[0]
        if top == "offsets":  # Spark asks for the last two
            needed += [path for version, _, path in files if version >= batch - 1]
        else:
            needed += newest_of(files, _COMPACTED if top == "sources" else WHOLE)
    return sorted(needed)


def _latest(folder: str, batch: int) -> int:
    """The last version needed: a batch reads the state of the version with its own number, and writes the next one."""
    return batch - 1 if folder == "commits" else batch


def _literally(path: str) -> str:
    """Escape the path for Hadoop's patterns (``GlobPattern``)."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


class CheckpointCopy:
    """A copy beside the checkpoint, on the same file system, where executors can reach it.

    :param location: the checkpoint's folder, on any file system that Spark can write to
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        given = self._path(location)
        self._files = given.getFileSystem(self._conf)
        self._original = self._files.makeQualified(given)
        self._copy = self._path(
            self._original.getParent(), f"{_PREFIX}{uuid.uuid4().hex[:8]}-{self._original.getName()}"
        )
        self._batch: int | None = None
        self._id = json.dumps({"id": str(uuid.uuid4())})
        self._signed_at = float("-inf")

    @property
    def location(self) -> str:
        return str(self._copy.toString())

    def make(self, is_over: Callable[[], bool]) -> bool:
        """Copy the checkpoint as it is now.

        :param is_over: tells, before each file, whether to end this
        :returns: False if it was ended, or if the stream has had no batch so far
        :raises Exception: if the running query has deleted a file meanwhile
        """
        commits = self._below(self._original, "commits")
        self._batch = max((int(found["version"]) for path in commits if (found := FILE.fullmatch(path))), default=None)
        if self._batch is None:
            return False
        self._files.deleteOnExit(self._copy)
        self._sign()
        self._remove_abandoned()
        others = (path for folder in _OTHERS for path in self._below(self._original, folder))
        for path in before(self._batch, [*commits, *others]):
            if is_over():
                return False
            self._sign()
            source, target = self._path(self._original, path), self._path(self._copy, path)
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(self._files, source, self._files, target, False, self._conf)
        return True

    def rewind(self) -> None:
        """Reset the copy to the state before that batch, after a query that started from it has ended."""
        assert self._batch is not None
        self._sign()
        for folder, last in (("commits", self._batch - 1), ("offsets", self._batch)):
            for path in self._below(self._copy, folder):
                found = FILE.fullmatch(path)
                if found is not None and int(found["version"]) > last:
                    self._files.delete(self._path(self._copy, path), False)

    def remove(self) -> None:
        if self._batch is not None:
            self._files.delete(self._copy, True)

    def _sign(self) -> None:
        """Give a sign of life. The id is not that of the real query: Spark stops a running query when another one
        starts with the same id.
        """
        if time.monotonic() < self._signed_at + _SIGN_EVERY_S:
            return
        stream = self._files.create(self._path(self._copy, _ID))
        try:
            stream.writeBytes(self._id)
        finally:
            stream.close()
        self._signed_at = time.monotonic()

    def _remove_abandoned(self) -> None:
        """Remove abandoned copies of this task and of others of its job."""
        folder = self._original.getParent()
        try:
            now = self._last_sign_ms(self._files.getFileStatus(self._copy))
            for copy in self._files.globStatus(self._path(_literally(str(folder.toString())), f"{_PREFIX}*")):
                path = copy.getPath()
                silent_ms = now - self._last_sign_ms(copy)
                if silent_ms > ABANDONED_MS and self._files.delete(path, True):
                    log.info("Removed %s, which a rehearsal that was killed has left", path.toString())
        except Exception:
            log.warning("Could not remove what rehearsals have left in %s", folder.toString(), exc_info=True)

    def _last_sign_ms(self, copy: Any) -> int:
        """The time of the newest file: object stores have no times of folders."""
        files = (entry for entry in self._files.listStatus(copy.getPath()) if not entry.isDirectory())
        return max((int(file.getModificationTime()) for file in files), default=int(copy.getModificationTime()))

    def _below(self, root: Any, folder: str) -> list[str]:
        """The files in this folder, relative to the checkpoint's folder."""
        whole = self._path(root, folder)
        return [folder + path[len(whole.toString()) :] for path in list_files(self._files, whole)]

    def _path(self, *parts: Any) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(*parts)
