"""A stream with state and slow reference data, and what its sink shows about it.

The right result of each batch is known: the source gives the same rows for the same batch to any reader.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.job import FencedError, JobContext, SparkJob, TaskContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

KEYS: Final = 10
ROWS: Final = 100
"""Rows per batch, spread evenly over the keys."""

_TRIGGER: Final = "500 milliseconds"
_STEP_S: Final = 0.25
_fetched: set[tuple[str, int]] = set()
"""The tasks whose reference data this process has loaded."""


class Totals(SparkJob):
    """Running totals by key. A task's prices take ``warm_up_s`` to load, once in a process.

    The planner reads from the file ``again`` how often each task is to be restarted in place.
    """

    def __init__(self) -> None:
        self._stream: DataStreamWriter | None = None

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        again = Path(job.config["folder"]) / "again"
        counts = json.loads(again.read_text()) if again.exists() else [0] * job.max_tasks
        return [{**job.config, "again": count} for count in counts]

    def warm_up(self, spark: SparkSession, task: TaskContext) -> Iterator[float]:
        yield from self._fetch(spark, task)
        assert self._stream is not None
        for _ in task.rehearse(self._stream.foreachBatch(_collect)):
            yield 0.99

    def run(self, spark: SparkSession, task: TaskContext) -> StreamingQuery:
        warm = self._stream is not None
        if not warm:
            for _ in self._fetch(spark, task):
                pass
        assert self._stream is not None
        sink = Path(task.config["folder"]) / f"sink-{task.index}"
        sink.mkdir(parents=True, exist_ok=True)
        run = uuid.uuid4().hex[:8]

        def write(batch: DataFrame, batch_id: int) -> None:
            totals = {str(row.key): [row.rows, row.paid] for row in batch.collect()}
            written = {"number": batch_id, "at": time.time(), "run": run, "pid": os.getpid(), "warm": warm}
            hidden = sink / f".{batch_id}-{run}"
            hidden.write_text(json.dumps({**written, "totals": totals}))
            hidden.rename(sink / f"{batch_id}-{run}.json")

        stream = self._stream.foreachBatch(task.foreach_batch(write))
        return stream.option("checkpointLocation", task.checkpoint_location).start()

    def _fetch(self, spark: SparkSession, task: TaskContext) -> Iterator[float]:
        began, seconds = time.monotonic(), task.config["warm_up_s"]
        while (task.job, task.index) not in _fetched and (waited := time.monotonic() - began) < seconds:
            if task.wait(_STEP_S):
                raise FencedError("the task was told to stop while it waited for its prices")
            yield min(waited / seconds, 0.99)
        _fetched.add((task.job, task.index))
        self._stream = _totals(spark, task.cached(f"prices-{task.index}", lambda: _priced(spark)))


def _collect(batch: DataFrame, _batch_id: int) -> None:
    batch.collect()


def _priced(spark: SparkSession) -> DataFrame:
    return spark.range(KEYS).selectExpr("id AS key", "id + 1 AS price")


def _totals(spark: SparkSession, prices: DataFrame) -> DataStreamWriter:
    from pyspark.sql import functions as F  # noqa: N812

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 1)
    bought = source.load().selectExpr(f"value % {KEYS} AS key").join(prices, "key")
    totals = bought.groupBy("key").agg(F.count("*").alias("rows"), F.sum("price").alias("paid"))
    return totals.writeStream.outputMode("update").trigger(processingTime=_TRIGGER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as it was written.

    :param at: the wall clock, in seconds
    :param run: which call of ``run`` wrote it
    :param warm: whether that call found the prices already loaded by its warm-up
    """

    number: int
    at: float
    run: str
    pid: int
    warm: bool
    totals: dict[str, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The time between two batches, in seconds.

    :param at: when the later one was written
    :param moved: whether another process wrote the later one
    :param restarted: whether another call of ``run`` wrote it
    """

    seconds: float
    at: float
    moved: bool
    restarted: bool


class Sink:
    """The output of one task."""

    def __init__(self, folder: Path, index: int) -> None:
        self._folder = folder / f"sink-{index}"
        self._read: dict[Path, Batch] = {}

    def batches(self) -> list[Batch]:
        """In the order of writing."""
        for path in self._folder.glob("[!.]*.json"):
            if path not in self._read:
                self._read[path] = Batch(**json.loads(path.read_text()))
        return sorted(self._read.values(), key=lambda batch: batch.at)

    def gaps(self) -> list[Gap]:
        return [
            Gap(
                seconds=later.at - earlier.at,
                at=later.at,
                moved=later.pid != earlier.pid,
                restarted=later.run != earlier.run,
            )
            for earlier, later in pairwise(self.batches())
        ]

    def check(self) -> int:
        """Check that every batch is there with the right totals: no row was lost or counted twice. A batch that was
        written again, because its commit was not recorded, replaces its first version.

        :returns: how many batches there are
        :raises AssertionError: if a batch is missing or wrong
        """
        batches = self.batches()
        assert sorted({batch.number for batch in batches}) == list(range(len({batch.number for batch in batches})))
        for batch in batches:
            rows = (batch.number + 1) * ROWS // KEYS
            assert batch.totals == {str(key): [rows, rows * (key + 1)] for key in range(KEYS)}, batch
        for earlier, later in pairwise(batches):
            assert later.number in (earlier.number, earlier.number + 1), (earlier, later)
        return len(batches)


def written_by(sinks: Sequence[Sink]) -> list[int]:
    """The process that wrote each sink's last batch; 0 if there is none."""
    return [batches[-1].pid if (batches := sink.batches()) else 0 for sink in sinks]
