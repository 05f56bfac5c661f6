"""Sends the modules of jobs to a server: their functions run in Python processes beside it and on its executors."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider.spark.local.application.scratch import ScratchFolder
from airflow_provider.spark.local.shipping import packed
from airflow_provider.spark.local.sources import sources_of

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


class Parcels:
    """The modules of jobs, packed once for all sessions of a worker. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        """PySpark invalidates Python's import caches then, which two threads can't do at once (KeyError)."""
        self._folder: ScratchFolder | None = None
        self._archives: dict[str, Path | None] = {}
        self._found: dict[tuple[str, bool], list[Path]] = {}
        """By module, and whether it was imported when it was looked for. To look takes tenths of a second: too long for
        each of a thousand tasks, which would wait for each other."""

    def send(self, session: SparkSession, module: str, sent: frozenset[str]) -> frozenset[str]:
        """Let functions of this session import the modules of the job in ``module``, as far as they are known: its
        import may add to the path.

        :param sent: the archives that the session has
        :returns: those that it has got now
        """
        archives = [str(archive) for archive in self._of(module) if str(archive) not in sent]
        if archives:
            with self._sending:
                session.addArtifacts(*archives, pyfile=True)
                # PySpark adds them to this process's import path, too. But they are deleted before this process ends,
                # and it has the modules anyway. A new list, because another thread may be iterating over the old one.
                sys.path = [entry for entry in sys.path if entry not in archives]
        return frozenset(archives)

    def close(self) -> None:
        with self._lock:
            self._archives.clear()
            self._found.clear()
            folder, self._folder = self._folder, None
            if folder is not None:
                folder.remove()

    def _of(self, module: str) -> list[Path]:
        with self._lock:
            looked_for = module, module in sys.modules
            if looked_for not in self._found:
                self._found[looked_for] = self._look_for(module)
            return self._found[looked_for]

    def _look_for(self, module: str) -> list[Path]:
        if self._folder is None:
            self._folder = ScratchFolder()
        sources = list(sources_of(module))
        for source in sources:
            if source.name not in self._archives:
                self._archives[source.name] = packed(source, self._folder.path)
        return [archive for source in sources if (archive := self._archives[source.name]) is not None]
