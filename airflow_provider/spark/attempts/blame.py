"""Judges who is to blame for the error with which an attempt, a warm-up or a detached query has ended.

A judgement is about the error alone: what follows from it is decided by the machine of tasks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from airflow_provider.spark.attempts.failures import (
    Mask,
    describe,
    describe_query,
    is_retryable,
    traceback_of_query,
    traceback_tail,
    why_no_spark,
)
from airflow_provider.spark.attempts.spark_errors import thrown_as, thrown_in
from airflow_provider.spark.local.errors import SparkFullError, SparkGoneError, SparkStartError
from airflow_provider.spark.raised import message_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskToBlame:
    """The task's own code has raised an error.

    :param error: the error and its causes, in a few lines
    :param traceback: its end
    :param retryable: whether another try might help
    """

    error: str
    traceback: str
    retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerToBlame:
    """This worker has no Spark for any task, or its process has reached a limit (threads, memory, open files)."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkToBlame:
    """The Spark that the task ran on has ended. The errors of its code are consequences of that.

    :param spark: the number of this Spark
    """

    spark: int
    error: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterToBlame:
    """Another writer uses the task's checkpoint or table: its predecessor, which has not ended yet, or a stranger."""

    error: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NobodyToBlame:
    """A known fault of Spark or its connectors, or an unknown task, has ended the attempt. The next one does not meet
    that.

    :param lasts: it may take long until an attempt can begin: Spark has no capacity left
    """

    error: str
    traceback: str
    lasts: bool = False


Blame: TypeAlias = TaskToBlame | WorkerToBlame | SparkToBlame | WriterToBlame | NobodyToBlame


def blame(error: BaseException, explain: Callable[[BaseException], BaseException], mask: Mask) -> Blame:
    """Judge an error; never raises.

    :param explain: returns a plainer error if Spark itself is the reason
    :param mask: removes secrets from texts
    """
    try:
        return _judge(explain(error), mask)
    except BaseException as wrong:  # noqa: BLE001  the attempt has ended, even if its error can't be described
        short = f"{type(error).__name__}; its message can't be shown, because that failed with {type(wrong).__name__}"
        return TaskToBlame(error=short, traceback="", retryable=is_retryable(error))


def spark_to_blame(gone: SparkGoneError, mask: Mask) -> SparkToBlame:
    return SparkToBlame(spark=gone.spark, error=mask(str(gone)), traceback=traceback_tail(gone, mask))


def blame_for_query(text: str, mask: Mask) -> TaskToBlame | WriterToBlame | NobodyToBlame:
    """Judge the error of a detached query, of which its server has sent only this text."""
    error, traceback = describe_query(text, mask), traceback_of_query(text, mask)
    if others := _others_than_the_task(thrown_in(text)):
        return others(error=error, traceback=traceback)
    return TaskToBlame(error=error, traceback=traceback, retryable=True)


def _judge(plain: BaseException, mask: Mask) -> Blame:
    if isinstance(plain, SparkGoneError):
        return spark_to_blame(plain, mask)
    if isinstance(plain, SparkStartError):
        return WorkerToBlame(error=why_no_spark(plain, mask))
    if isinstance(plain, SparkFullError):
        traceback = traceback_tail(plain, mask) if plain.began else ""
        return NobodyToBlame(error=mask(message_of(plain)), traceback=traceback, lasts=not plain.began)
    error, traceback = describe(plain, mask), traceback_tail(plain, mask)
    if others := _others_than_the_task(_thrown_by(plain)):
        return others(error=error, traceback=traceback)
    return TaskToBlame(error=error, traceback=traceback, retryable=is_retryable(plain))


def _others_than_the_task(thrown: Iterable[str]) -> type[WriterToBlame | NobodyToBlame] | None:
    """Who is to blame for what was thrown, if it is known; None: the task. A conflict counts before a known fault."""
    texts = [*thrown]
    if _is_conflict(texts):
        return WriterToBlame
    return NobodyToBlame if _is_known_fault(texts) else None


# ---- another writer

_OF_SPARK: Final = r"(?:org\.apache\.spark|pyspark\.errors)\.[\w.$]+: "
_OF_JAVA_ITSELF: Final = r"java\.(?:lang|util)\.\w+: (?:assertion failed: )?"
_OF_DELTA: Final = r"(?:io\.delta\.exceptions|org\.apache\.spark\.sql\.delta|delta\.exceptions(?:\.\w+)*)\."
_IN_DELTA: Final = (
    r"(?:Concurrent\w+|DeltaConcurrentModification|(?:Metadata|Protocol)Changed|MaxCommitRetriesExceeded)"
)
_IN_ICEBERG: Final = r"(?:Found (?:new )?conflicting|Cannot commit, (?:found new|missing)) "
_IN_SPARK: Final = (
    r"Race while writing batch \d+$",
    r"Multiple streaming queries are concurrently using ",
    r"Concurrent update to the log\. Multiple streaming jobs detected for ",
    r"Cannot start query with id \S+ as another query with same id is already active",
)
_CONFLICTS: Final = re.compile(
    "|".join(
        (
            rf"{_OF_DELTA}{_IN_DELTA}Exception\b",
            rf"{_OF_SPARK}\[DELTA_(?:CONCURRENT_\w+|METADATA_CHANGED|PROTOCOL_CHANGED|MAX_COMMIT_RETRIES_EXCEEDED)\]",
            r"(?:org\.apache\.iceberg|pyiceberg)\.exceptions\.CommitFailedException\b",
            rf"org\.apache\.iceberg\.exceptions\.ValidationException: {_IN_ICEBERG}",
            r"org\.apache\.hudi\.exception\.HoodieWriteConflictException\b",
            rf"{_OF_SPARK}\[CONCURRENT_(?:STREAM_LOG_UPDATE|QUERY)\]",
            rf"(?:{_OF_SPARK}|{_OF_JAVA_ITSELF})(?:{'|'.join(_IN_SPARK)})",
        )
    )
)
"""How the errors of Delta, Iceberg, Hudi and Spark begin that say so: by their type, or by their condition or message
if the type says less.
"""


def _is_conflict(thrown: Iterable[str]) -> bool:
    return any(map(_CONFLICTS.match, thrown))


# ---- known faults

_OF_METRICS: Final = r'Cannot invoke "scala\.collection\.IterableOps\.map\(.*"scala\.Option\.get\(\)" is null'
_KNOWN_FAULTS: Final = re.compile(
    "|".join(
        (
            # A Python worker has ten seconds to connect, which can't be changed. On a busy machine it needs more.
            rf"{_OF_SPARK}.*\bPython worker failed to connect back",
            # The Kafka connector, when the first batch of a query is one that was interrupted: it has been written, and
            # only its metrics fail (``KafkaMicroBatchStream.metrics``).
            rf"java\.lang\.NullPointerException: {_OF_METRICS}",
            # Somebody has cancelled the jobs of all tasks, by way of the JVM: it is not known who.
            rf"{_OF_SPARK}\[SPARK_JOB_CANCELLED\] Job \d+ cancelled as part of cancellation of all jobs",
        )
    )
)


def _is_known_fault(thrown: Iterable[str]) -> bool:
    return any(map(_KNOWN_FAULTS.match, thrown))


def _thrown_by(error: BaseException) -> Iterator[str]:
    """The error, what it was raised from on purpose, and what Java says in either."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        trace = getattr(link, "_stackTrace", None) or getattr(link, "_stacktrace", None)
        name = f"{type(link).__module__}.{type(link).__qualname__}"
        yield from thrown_as(name, message_of(link), trace if isinstance(trace, str) else "")
        link = link.__cause__
