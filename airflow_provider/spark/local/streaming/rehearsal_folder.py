"""A folder for what a rehearsal writes: beside the checkpoint, on the same file system, where executors can reach it.

It is deleted by its process, at the latest when the JVM ends properly. If the process was killed, the next one that
makes such a folder beside it removes it. It can't see whether the folder is in use: the user may be on another machine.
So each folder has a sign of life, the time of its newest file. This file is written first, and again and again while
the folder is used. Times are compared as the file system reports them, so they are the same for all machines.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ID: Final = "metadata"
"""The file with a query's id. It is also the sign of life."""
_PREFIX: Final = "rehearsal-"
"""How the name of a folder begins. No checkpoint's name begins like this (``spark/job/checkpoint_folder.py``)."""
_SIGN_EVERY_S: Final = 60.0
ABANDONED_MS: Final = 15 * 60_000
"""A folder without a sign of life for this long is not in use. If a process was suspended for longer, its own folder
may be gone; then its rehearsal fails, which does no harm.
"""

log = logging.getLogger(__name__)


class RehearsalFolder:
    """:param location: the checkpoint's folder, on any file system that Spark can write to"""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        given = self.path(location)
        self.files = given.getFileSystem(self._conf)
        self.original = self.files.makeQualified(given)
        self.root = self.path(self.original.getParent(), f"{_PREFIX}{uuid.uuid4().hex[:8]}-{self.original.getName()}")
        self._id = json.dumps({"id": str(uuid.uuid4())})
        self._signed_at = float("-inf")

    @property
    def location(self) -> str:
        return str(self.root.toString())

    def below(self, name: str) -> str:
        """The location of this in it."""
        return str(self.path(self.root, name).toString())

    def path(self, *parts: Any) -> Any:
        """A path of Hadoop's."""
        return self._jvm.org.apache.hadoop.fs.Path(*parts)

    def make(self) -> None:
        self.sign()
        self.files.deleteOnExit(self.root)  # only what exists
        self._remove_abandoned()

    def sign(self) -> None:
        """Give a sign of life. The id is not that of the real query: Spark stops a running query when another one
        starts with the same id.
        """
        if time.monotonic() < self._signed_at + _SIGN_EVERY_S:
            return
        self.write(_ID, self._id)
        self._signed_at = time.monotonic()

    def write(self, name: str, text: str) -> None:
        stream = self.files.create(self.path(self.root, name))
        try:
            stream.writeBytes(text)
        finally:
            stream.close()

    def copy(self, path: str) -> None:
        """Copy a file of the checkpoint.

        :param path: relative to the checkpoint's folder
        """
        source, target = self.path(self.original, path), self.path(self.root, path)
        self._jvm.org.apache.hadoop.fs.FileUtil.copy(self.files, source, self.files, target, False, self._conf)

    def remove(self) -> None:
        """If this fails, or a task of Spark still writes into it, a later rehearsal removes it."""
        with contextlib.suppress(Exception):
            self.files.delete(self.root, True)

    def _remove_abandoned(self) -> None:
        """Remove abandoned folders of this task and of others of its job."""
        folder = self.original.getParent()
        try:
            now = self._last_sign_ms(self.files.getFileStatus(self.root))
            for other in self.files.globStatus(self.path(_literally(str(folder.toString())), f"{_PREFIX}*")):
                path = other.getPath()
                silent_ms = now - self._last_sign_ms(other)
                if silent_ms > ABANDONED_MS and self.files.delete(path, True):
                    log.info("Removed %s, which a rehearsal that was killed has left", path.toString())
        except Exception:
            log.warning("Could not remove what rehearsals have left in %s", folder.toString(), exc_info=True)

    def _last_sign_ms(self, folder: Any) -> int:
        """The time of the newest file: object stores have no times of folders."""
        files = (entry for entry in self.files.listStatus(folder.getPath()) if not entry.isDirectory())
        return max((int(file.getModificationTime()) for file in files), default=int(folder.getModificationTime()))


def _literally(path: str) -> str:
    """Escape the path for Hadoop's patterns (``GlobPattern``)."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
