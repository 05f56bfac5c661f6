"""Sends the modules of jobs to a server: their functions run in Python processes beside it and on its executors."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_provider.spark.local.application.scratch_folder import ScratchFolder
from airflow_provider.spark.local.shipping import PackingError, packed
from airflow_provider.spark.local.sources import Source, sources_of

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_AT_ONCE: Final = 8
"""So many sessions are sent something at the same time. For one alone the server mostly waits, for its own small
processes among others; a thousand would be done no sooner."""
_TRIES: Final = 20


class Parcels:
    """The modules of jobs, packed once for all sessions of a worker. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sending = threading.BoundedSemaphore(_AT_ONCE)
        self._path = threading.Lock()
        self._folder: ScratchFolder | None = None
        self._archives: dict[str, Path | None] = {}
        """By name; None: it can't be packed."""
        self._found: dict[str, list[Path]] = {}
        """By module. To look takes tenths of a second: too long for each of a thousand tasks, which would wait for each
        other."""

    def send(self, session: SparkSession, module: str) -> None:
        """Let functions of this session import the modules of the job in ``module``, which has been imported: that may
        have added to the path.
        """
        archives = [str(archive) for archive in self._of(module)]
        if archives:
            try:
                with self._sending:
                    _send(session, archives)
            finally:
                self._take_from_path(archives)

    def _take_from_path(self, archives: list[str]) -> None:
        """PySpark adds them to this process's import path, too. But they are deleted before this process ends, and it
        has the modules anyway.
        """
        with self._path:  # a new list, because another thread may be iterating over the old one
            sys.path = [entry for entry in sys.path if entry not in archives]

    def close(self) -> None:
        with self._lock:
            self._archives.clear()
            self._found.clear()
            folder, self._folder = self._folder, None
            if folder is not None:
                folder.remove()

    def _of(self, module: str) -> list[Path]:
        with self._lock:
            found = self._found.get(module)
            if found is None:
                sources = list(sources_of(module))
                self._pack(sources)
                found = [archive for source in sources if (archive := self._archives.get(source.name)) is not None]
                if all(source.name in self._archives for source in sources):
                    self._found[module] = found
            return found

    def _pack(self, sources: Iterable[Source]) -> None:
        if self._folder is None:
            self._folder = ScratchFolder()
        for source in sources:
            if source.name not in self._archives:
                with contextlib.suppress(PackingError):
                    self._archives[source.name] = packed(source, self._folder.path)


def _send(session: SparkSession, archives: Iterable[str]) -> None:
    """PySpark first invalidates Python's import caches. If two threads do so at once, one of them may find that the
    other has deleted what it is about to delete.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(KeyError):
            session.addArtifacts(*archives, pyfile=True)
            return
    session.addArtifacts(*archives, pyfile=True)
