"""A job without code: it runs SQL files.

The plan has the digest of each file, not its text: nobody can have SQL run by writing it into a topic, and a file may
be longer than a record. A task that finds another file than the planned one fails, so no run mixes two versions.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from msgspec import Meta

from airflow_provider.jobs.order import tasks_in_order
from airflow_provider.jobs.sql_statements import Statement, named_before, statements_of
from airflow_provider.spark.job import JobContext, SparkJob, TaskContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_AFFECTED: Final = "num_affected_rows"
"""The first column of what Delta returns for ``MERGE``, ``UPDATE`` and ``DELETE``."""

Scalar: TypeAlias = str | int | float | bool | None


@dataclass
class SqlFilesConfig:
    """What to run."""

    folder: Annotated[str, Meta(pattern="^/", description="the absolute path of a folder that all workers have")]
    files: Annotated[
        list[str], Meta(description="paths of *.sql files in the folder; empty: all there and in its subfolders")
    ] = field(default_factory=list)
    parameters: Annotated[
        dict[str, Scalar | list[Scalar]],
        Meta(description="values by name: :name in a file stands for the value, never for a piece of SQL"),
    ] = field(default_factory=dict)


class OtherFileError(Exception):
    """A file is not the one that was planned."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is not as it was when the job was planned: it has been changed since, or this worker has another"
            " version of it. Run the job again when all workers have the same files"
        )


class StatementError(Exception):
    """Spark refuses a statement; the cause says why."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place} can't be run")


class SqlFiles(SparkJob):
    """Runs the SQL files of a folder. Each file is a task, and files that depend on each other are one task together: a
    comment ``-- after: other.sql`` before the first statement of a file says after which others it runs.

    The config: ``folder``, ``files`` (by default all ``*.sql`` there) and ``parameters``, the values of Spark's named
    parameter markers (``:name``).

    A task runs all statements of its files, one after the other, in one session. Its result has ``statements`` (how
    many have run), ``rows_affected`` (None if Spark does not say) and ``seconds``.

    If another writer of a table is in a task's way, the task waits and runs again from its first statement. It may also
    run again for other reasons, as all tasks. So write files that may run twice.
    """

    config_schema = SqlFilesConfig

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        folder, parameters = Path(job.config["folder"]), job.config.get("parameters", {})
        names = job.config.get("files") or _sql_files_in(folder)
        files = {name: _read(folder, name) for name in names}
        before = {name: named_before(_text_of(name, content)) for name, content in files.items()}
        return [
            {
                "name": ", ".join(together),
                "folder": str(folder),
                "files": [{"file": name, "sha256": _digest(files[name])} for name in together],
                "parameters": parameters,
            }
            for together in tasks_in_order(job.name, "files", before)
        ]

    def run(self, spark: SparkSession, task: TaskContext) -> dict[str, Any]:
        begun, parameters = time.monotonic(), dict(task.config["parameters"])
        affected: list[int] = []
        statements = 0
        # All are read before the first statement runs.
        texts = {each["file"]: _planned_text(Path(task.config["folder"]), **each) for each in task.config["files"]}
        for place, statement in _statements_of(texts):
            task.fence()
            log.info("Task %s:%d runs %s", task.job, task.index, place)
            rows = _run(spark, statement, parameters, place)
            statements += 1
            affected += [] if rows is None else [rows]
        return {
            "statements": statements,
            "rows_affected": sum(affected) if affected else None,
            "seconds": round(time.monotonic() - begun, 3),
        }


def _sql_files_in(folder: Path) -> list[str]:
    """Their paths in the folder. Hidden files and folders are left out.

    :raises FileNotFoundError: if there are none
    """
    paths = (path.relative_to(folder) for path in folder.rglob("*.sql") if path.is_file())
    names = sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))
    if not names:
        raise FileNotFoundError(f"this worker finds no *.sql file in {folder}")
    return names


def _read(folder: Path, name: str) -> bytes:
    """:raises ValueError: if it is something else than an SQL file in the folder, whose text an error might show"""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or path.suffix != ".sql":
        raise ValueError(f"{name!r} is not the path of a *.sql file in {folder}")
    return (folder / path).read_bytes()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _text_of(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as wrong:
        raise ValueError(f"{name} is not encoded in UTF-8") from wrong


def _planned_text(folder: Path, *, file: str, sha256: str) -> str:
    """:raises OtherFileError: if it is not the file that was planned"""
    content = _read(folder, file)
    if _digest(content) != sha256:
        raise OtherFileError(file)
    return _text_of(file, content)


def _statements_of(texts: Mapping[str, str]) -> Iterator[tuple[str, Statement]]:
    """With the place of each, for people."""
    for name, text in texts.items():
        statements = statements_of(text)
        for number, statement in enumerate(statements, 1):
            yield f"{name}, line {statement.line} (statement {number} of {len(statements)})", statement


def _run(spark: SparkSession, statement: Statement, parameters: dict[str, Any], place: str) -> int | None:
    """The rows that it has affected; None: Spark does not say.

    :raises StatementError: if Spark refuses it. Other errors stay as they are: they may say that Spark has ended
    """
    from pyspark.errors import AnalysisException

    try:
        return _rows_affected(spark.sql(statement.text, args=parameters))
    except AnalysisException as refused:
        raise StatementError(place) from refused
    except Exception:
        log.warning("%s has failed", place)
        raise


def _rows_affected(result: DataFrame) -> int | None:
    """Run what ``spark.sql`` has not run yet. It runs commands at once, and queries only when their rows are wanted."""
    columns = result.columns
    if columns[:1] == [_AFFECTED]:
        first = result.first()
        return None if first is None else first[_AFFECTED]
    if columns:
        result.write.format("noop").mode("overwrite").save()
    return None
