"""A copy of a stream's checkpoint as it was before its last batch. A query that starts from it repeats that batch, as
if the real query had been interrupted in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.local.streaming.checkpoint_files import FILE, WHOLE, list_files, newest_of
from airflow_provider.spark.local.streaming.rehearsal_folder import RehearsalFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OTHERS: Final = ("offsets", "state", "sources")
"""Listed after the commits, so that they contain everything that the last commit needs."""
_COMPACTED: Final = frozenset({".compact"})
"""The files of a source that need no file of an older batch (Spark's ``CompactibleFileStreamLog``)."""


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


class CheckpointCopy:
    """A copy in a folder for rehearsals.

    :param location: the checkpoint's folder, on any file system that Spark can write to
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._folder = RehearsalFolder(spark, location)
        self._batch: int | None = None

    @property
    def location(self) -> str:
        return self._folder.location

    def make(self, is_over: Callable[[], bool]) -> bool:
        """Copy the checkpoint as it is now.

        :param is_over: tells, before each file, whether to end this
        :returns: False if it was ended, or if the stream has had no batch so far
        :raises Exception: if the running query has deleted a file meanwhile
        """
        original = self._folder.original
        commits = self._below(original, "commits")
        self._batch = max((int(found["version"]) for path in commits if (found := FILE.fullmatch(path))), default=None)
        if self._batch is None:
            return False
        self._folder.make()
        others = (path for folder in _OTHERS for path in self._below(original, folder))
        for path in before(self._batch, [*commits, *others]):
            if is_over():
                return False
            self._folder.sign()
            self._folder.copy(path)
        return True

    def rewind(self) -> None:
        """Reset the copy to the state before that batch, after a query that started from it has ended."""
        assert self._batch is not None
        self._folder.sign()
        for folder, last in (("commits", self._batch - 1), ("offsets", self._batch)):
            for path in self._below(self._folder.root, folder):
                found = FILE.fullmatch(path)
                if found is not None and int(found["version"]) > last:
                    self._folder.files.delete(self._folder.path(self._folder.root, path), False)

    def remove(self) -> None:
        self._folder.remove()

    def _below(self, root: Any, folder: str) -> list[str]:
        """The files in this folder, relative to the checkpoint's folder."""
        whole = self._folder.path(root, folder)
        return [folder + path[len(whole.toString()) :] for path in list_files(self._folder.files, whole)]
