"""A copy of a stream's checkpoint as it was before its last batch. A query that starts from it does that batch again,
as if the real one had been interrupted in it.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.driver.checkpoint_files import FILE, WHOLE, list_files, newest_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OTHERS: Final = ("offsets", "state", "sources")
"""Listed after the commits: they have what the last of these needs."""
_COMPACTED: Final = frozenset({".compact"})
"""A source's files that need none of an older batch (Spark's ``CompactibleFileStreamLog``)."""

_ID: Final = "metadata"
"""The file with the query's id."""


def before(batch: int, paths: Iterable[str]) -> list[str]:
    """Of a checkpoint's files those that a query needs to do this batch again.

    :param paths: as seen from the checkpoint's folder
    """
    folders: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    needed: list[str] = []
    for path in paths:
        top, found = path.partition("/")[0], FILE.fullmatch(path)
        if found is None:
            if not path.rpartition("/")[2].startswith("."):
                needed.append(path)  # of no version: a schema, or a part of several (RocksDB)
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
    """A batch reads the state of the version that has its number, and writes the next."""
    return batch - 1 if folder == "commits" else batch


class CheckpointCopy:
    """One beside the checkpoint on its file system, where executors reach it. What nobody has deleted, the JVM does at
    its end.

    :param location: the checkpoint's folder, on any file system that Spark can write to
    :param name: of the copy, behind that of the checkpoint
    """

    def __init__(self, spark: SparkSession, location: str, name: str) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        given = self._path(location)
        self._files = given.getFileSystem(self._conf)
        self._original = self._files.makeQualified(given)
        self._copy = self._path(self._original.getParent(), f"{self._original.getName()}.{name}")
        self._batch: int | None = None

    @property
    def location(self) -> str:
        return str(self._copy.toString())

    def make(self, is_over: Callable[[], bool]) -> bool:
        """Of the checkpoint as it is now.

        :param is_over: asked before each file, whether to end this
        :returns: False if it was ended, or the stream has done no batch yet
        :raises Exception: if a file has been deleted meanwhile by the query that runs
        """
        commits = self._below(self._original, "commits")
        self._batch = max((int(found["version"]) for path in commits if (found := FILE.fullmatch(path))), default=None)
        if self._batch is None:
            return False
        self._files.deleteOnExit(self._copy)
        others = (path for folder in _OTHERS for path in self._below(self._original, folder))
        for path in before(self._batch, [*commits, *others]):
            if is_over():
                return False
            source, target = self._path(self._original, path), self._path(self._copy, path)
            self._jvm.org.apache.hadoop.fs.FileUtil.copy(self._files, source, self._files, target, False, self._conf)
        self._write_id(self._path(self._copy, _ID))
        return True

    def rewind(self) -> None:
        """Have it before that batch again, after a query that has started from it has ended."""
        assert self._batch is not None
        for folder, last in (("commits", self._batch - 1), ("offsets", self._batch)):
            for path in self._below(self._copy, folder):
                found = FILE.fullmatch(path)
                if found is not None and int(found["version"]) > last:
                    self._files.delete(self._path(self._copy, path), False)

    def remove(self) -> None:
        if self._batch is not None:
            self._files.delete(self._copy, True)

    def _write_id(self, path: Any) -> None:
        """As of another query: Spark stops the one that runs under an id when a second one starts under it."""
        stream = self._files.create(path)
        try:
            stream.writeBytes(json.dumps({"id": str(uuid.uuid4())}))
        finally:
            stream.close()

    def _below(self, root: Any, folder: str) -> list[str]:
        """The files in it, as seen from the checkpoint's folder."""
        whole = self._path(root, folder)
        return [folder + path[len(whole.toString()) :] for path in list_files(self._files, whole)]

    def _path(self, *parts: Any) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(*parts)
