"""Sends the modules of jobs to a server: their functions run in a Python beside it, and on its executors."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider.driver.scratch import ScratchFolder
from airflow_provider.driver.shipping import packed
from airflow_provider.driver.sources import sources_of

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


class Parcels:
    """What jobs consist of, packed once for all sessions of a worker. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        """PySpark has Python forget what its finders know then, which two threads can't do at once (KeyError)."""
        self._folder: ScratchFolder | None = None
        self._archives: dict[str, Path | None] = {}

    def send(self, session: SparkSession, module: str) -> None:
        """Have functions of this session import what the job in ``module`` consists of."""
        archives = [str(archive) for archive in self._of(module)]
        if archives:
            with self._sending:
                session.addArtifacts(*archives, pyfile=True)
                # PySpark has this process import from them, too. They go sooner than it does, and it has the modules.
                # As another list: who looks through the one that there is would pass over what moves up.
                sys.path = [entry for entry in sys.path if entry not in archives]

    def close(self) -> None:
        with self._lock:
            self._archives.clear()
            folder, self._folder = self._folder, None
            if folder is not None:
                folder.remove()

    def _of(self, module: str) -> list[Path]:
        with self._lock:
            if self._folder is None:
                self._folder = ScratchFolder()
            sources = list(sources_of(module))
            for source in sources:
                if source.name not in self._archives:
                    self._archives[source.name] = packed(source, self._folder.path)
            return [archive for source in sources if (archive := self._archives[source.name]) is not None]
