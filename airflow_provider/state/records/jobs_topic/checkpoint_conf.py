"""Settings of Spark that the checkpoint of a stream keeps.

Spark writes them into the checkpoint with the first batch, and takes them from there ever after, whatever the session
says (``OffsetSeqMetadata.relevantSQLConfs``): the state of a stream is stored by partition, in a certain format.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records.jobs_topic.jobs import JobDefinition, TaskKind

KEPT_IN_CHECKPOINT: Final = frozenset(
    {
        "spark.sql.shuffle.partitions",
        "spark.sql.streaming.aggregation.stateFormatVersion",
        "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
        "spark.sql.streaming.join.stateFormatVersion",
        "spark.sql.streaming.multipleWatermarkPolicy",
        "spark.sql.streaming.stateStore.compression.codec",
        "spark.sql.streaming.stateStore.encodingFormat",
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.streaming.stateStore.rocksdb.formatVersion",
        "spark.sql.streaming.statefulOperator.useStrictDistribution",
    }
)


def without_effect(before: JobDefinition | None, now: JobDefinition) -> str:
    """Which changed settings have no effect on streams that have begun, in words; empty: there are none.

    :param before: the job's definition before; None: there was no such job
    """
    if before is None or now.kind is not TaskKind.STREAMING:
        return ""
    names = sorted(name for name in KEPT_IN_CHECKPOINT if before.session_conf.get(name) != now.session_conf.get(name))
    if not names:
        return ""
    has = "has" if len(names) == 1 else "have"
    return (
        f"{', '.join(names)} {has} no effect on a stream with state that has begun: its checkpoint keeps what it began"
        " with, so it needs a new checkpoint"
    )
