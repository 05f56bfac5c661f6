"""Reads the newest files of a stream's checkpoint, as its next start will. Caches of the files and of the file system
are then warm for the task that moves here.
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
"""The file of a batch in ``offsets`` and ``commits``, or of a version in ``state``, in any kind of store."""
WHOLE: Final = frozenset({"", ".snapshot", ".zip"})
"""The kinds of files that need no file of an older version."""


def newest(paths: Iterable[str]) -> list[str]:
    """The newest file of each folder that needs no older one, and all newer ones. The others are outdated, or are not
    files of a stream.
    """
    folders: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for path in paths:
        found = FILE.fullmatch(path)
        if found is not None:
            folders[found["folder"]].append((int(found["version"]), found["kind"] or "", path))
    return [path for folder in sorted(folders) for path in newest_of(folders[folder], WHOLE)]


def newest_of(files: Iterable[tuple[int, str, str]], whole: Container[str]) -> list[str]:
    """The same for one folder.

    :param files: the version, kind and path of each file
    :param whole: the kinds of files that need no file of an older version
    """
    files = sorted(files)
    base = max((version for version, kind, _ in files if kind in whole), default=-1)
    return [path for version, kind, path in files if version > base or (version == base and kind in whole)]


def read_newest(spark: SparkSession, location: str) -> Iterator[float]:
    """Read these files to their ends, and yield the progress, from 0 to 1. Files that a running query deletes meanwhile
    are skipped. The checkpoint may not exist yet.

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
    """All files below the folder. The entries of a folder are listed together: ``listFiles`` looks at each file, which
    starts a process for each on a local disk, and fails if one has been deleted.
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
