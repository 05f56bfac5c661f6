"""Sends the modules of jobs to the executors of a cluster, each once for a Spark application."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import threading
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_provider.spark.local.pyspark_internals import add_python_archive
from airflow_provider.spark.local.sources import Source, installed_at, sources_of
from airflow_provider.spark.raised import message_of

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

_ON_EXECUTOR: Final = ("from the Python worker", "api.python.PythonException")
"""These mark errors from the Python of an executor. The functions of ``foreachBatch`` run in this process instead."""
_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


class ExecutorImportError(Exception):
    """A function of a task needs a module that the executors do not have; the message says what to install where."""


class PackingError(Exception):
    """A module can't be packed at present. Another try may help."""


class Shipment:
    """Sends modules to the executors of one application. Any thread may call it.

    :param folder: for the archives. It must exist as long as the application, because executors may start late
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._jobs: set[str] = set()
        self._sources: set[str] = set()

    def ship(self, context: SparkContext, module: str) -> None:
        """Make the modules of the job in ``module`` importable on the executors, from the next function on."""
        with self._lock:
            if module in self._jobs:
                return
            lacking = False
            for source in sources_of(module):
                if source.name not in self._sources:
                    try:
                        self._send(context, source)
                        self._sources.add(source.name)
                    except PackingError:
                        lacking = True
            # Before it is imported, it may still come, and its import may add to the path.
            if module in sys.modules and not lacking:
                self._jobs.add(module)

    def _send(self, context: SparkContext, source: Source) -> None:
        archive = packed(source, self._folder)
        if archive is not None:
            add_python_archive(context, archive)
            log.info(
                "Sent %s to the executors (%d files, %d bytes)", source.name, len(source.files), archive.stat().st_size
            )


def packed(source: Source, folder: Path) -> Path | None:
    """Make an archive of it in ``folder``; None, with a warning, if this is not possible.

    :raises PackingError: after a warning, if this is not possible at present
    """
    try:
        obstacle = source.obstacle
        archive = None if obstacle else _archive(source, folder)
    except PermissionError as error:  # the job may not need it there
        obstacle, archive = str(error), None
    except OSError as error:
        log.warning("%s is not sent to the executors yet: %s; the next task tries it again", source.name, error)
        raise PackingError(source.name) from error
    if archive is None:
        log.warning("%s is not sent to the executors: %s. %s", source.name, obstacle, _advice(source.name))
    return archive


def explain_missing(error: BaseException, master: str) -> BaseException:
    """``error``; if the reason is a module that executors do not have, an error that says what to do about it."""
    text = message_of(error, "")
    missing = _MISSING.search(text)
    if missing is None or not any(mark in text for mark in _ON_EXECUTOR):
        return error
    plain = ExecutorImportError(
        f"the executors of {master} have no module {missing[1]!r}. {_advice(missing[1].partition('.')[0])}"
    )
    plain.__cause__ = error
    return plain


def _advice(name: str) -> str:
    where = installed_at(name)
    here = f" (here it is in {where})" if where else ""
    python = os.environ.get("PYSPARK_PYTHON", "python3")
    return f"Install {name}{here} on every machine of the cluster, for the Python that runs there ({python})"


def _archive(source: Source, folder: Path) -> Path:
    """The archive is named by its content, because Spark accepts each name only once."""
    packed = folder / f"{source.name}.packing"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, file in source.files:
            archive.writestr(zipfile.ZipInfo(path, _EPOCH), file.read_bytes(), zipfile.ZIP_DEFLATED)
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()[:12]
    return packed.rename(folder / f"{source.name}-{digest}.zip")
