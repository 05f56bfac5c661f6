"""Reads the newest files of a stream's checkpoint, as its next start will: what is near then, and what has been found
out about the file system, is so for the task that moves here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDERS: Final = ("offsets", "commits", "state")
FILE: Final = re.compile(r"(?P<folder>.*/)(?P<version>\d+)(?:_[^./]*)?(?P<kind>\.[A-Za-z]+)?$")
"""A batch's file in ``offsets`` and ``commits``; a version's in ``state``, by what kind of store whatever."""
WHOLE: Final = frozenset({"", ".snapshot", ".zip"})
"""Kinds of files that need none of an older version."""


def newest(paths: Iterable[str]) -> list[str]:
    """Of each folder the newest file that stands for itself, and what is newer than that; all others are outdated, or
    are none of a stream's.
    """
    folders: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for path in paths:
        found = FILE.fullmatch(path)
        if found is not None:
            folders[found["folder"]].append((int(found["version"]), found["kind"] or "", path))
    return [path for folder in sorted(folders) for path in newest_of(folders[folder], WHOLE)]


def newest_of(files: Iterable[tuple[int, str, str]], whole: Container[str]) -> list[str]:
    """Of one folder.

    :param files: each one's version, kind and path
    :param whole: kinds of files that need none of an older version
    """
    files = sorted(files)
    base = max((version for version, kind, _ in files if kind in whole), default=-1)
    return [path for version, kind, path in files if version > base or (version == base and kind in whole)]


def read_newest(spark: SparkSession, location: str) -> Iterator[float]:
    """Read them to their ends, and yield how much of it has been done, from 0 to 1. What a running query deletes
    meanwhile is passed over; a checkpoint that does not exist yet has none.

    :param location: the checkpoint's folder, on any file system that Spark can read
    """
    jvm: Any = spark._jvm  # noqa: SLF001
    root = jvm.org.apache.hadoop.fs.Path(location)
    files = root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    paths = newest(
        [path for folder in FOLDERS for path in list_files(files, jvm.org.apache.hadoop.fs.Path(root, folder))]
    )
    for done, path in enumerate(paths):
        yield done / len(paths)
        _read(jvm, files, path)


def list_files(files: Any, folder: Any) -> list[str]:
    """What is below, folders in folders too. A folder's entries are listed together: to look at each file, as
    ``listFiles`` does, takes a process for each on a local disk, and fails when one has gone.
    """
    try:
        entries = list(files.listStatus(folder))
    except Exception as error:
        if _is_missing(error):
            return []
        raise
    return [
        path
        for entry in entries
        for path in (list_files(files, entry.getPath()) if entry.isDirectory() else (entry.getPath().toString(),))
    ]


def _read(jvm: Any, files: Any, path: str) -> None:
    try:
        stream = files.open(jvm.org.apache.hadoop.fs.Path(path))
        try:
            stream.transferTo(jvm.java.io.OutputStream.nullOutputStream())
        finally:
            stream.close()
    except Exception as error:
        if not _is_missing(error):
            raise


def _is_missing(error: Exception) -> bool:
    from py4j.protocol import Py4JJavaError

    return isinstance(error, Py4JJavaError) and "FileNotFoundException" in error.java_exception.getClass().getName()
