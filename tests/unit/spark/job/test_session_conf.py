"""The settings of Spark that a job has for the sessions of its tasks: which it may have, and how they get there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from execution_script import A0, Script
from pyspark.errors import AnalysisException

from airflow_provider.spark.attempts.failures import describe, is_retryable
from airflow_provider.spark.job.session_conf import USUAL_CONF, AllowedConf, SessionConfError, set_conf
from airflow_provider.state.records import JobDefinition, JobError
from airflow_provider.worker.hands.orders import order_of
from airflow_provider.worker.tasks import commands

JOB = JobDefinition(name="a", entry_point="m:f", max_tasks=100)
CONF = {"spark.sql.shuffle.partitions": "16"}


@pytest.mark.parametrize(
    "name",
    [
        "spark.sql.shuffle.partitions",
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.catalog.lake.type",
        "spark.scheduler.pool",
        "spark.hadoop.fs.s3a.endpoint",
        "spark.databricks.delta.retryWriteConflict.limit",
        "fs.s3a.endpoint",
        "spark.drivers.of.mine",
    ],
)
def test_a_definition_may_have_what_a_session_can_set(name: str) -> None:
    assert JobDefinition.from_json(replace(JOB, session_conf={name: "1"}).to_json()).session_conf == {name: "1"}


@pytest.mark.parametrize(
    "name",
    [
        "spark.executor.memory",
        "spark.cores.max",
        "spark.master",
        "spark.scheduler.mode",
        "spark.kubernetes.namespace",
        "spark.sql.warehouse.dir",
        "spark.sql.extensions",
        "spark.sql.streaming.ui.enabled",
    ],
)
def test_what_counts_when_spark_starts_is_refused_and_it_is_said_where_it_belongs(name: str) -> None:
    with pytest.raises(JobError, match=f"session_conf: '{name}' applies when Spark starts, .*: give it to the workers"):
        replace(JOB, session_conf={name: "1"})


@pytest.mark.parametrize("conf", [["spark.a"], {"spark.a": 1}, {"": "1"}, {1: "1"}, {"spark.a": "\ud800"}])
def test_what_is_no_setting_is_refused(conf: Any) -> None:
    with pytest.raises(JobError, match="session_conf: "):
        replace(JOB, session_conf=conf)


def test_other_settings_are_another_definition_of_the_same_tasks() -> None:
    """What runs is not stopped for them."""
    assert not replace(JOB, session_conf=CONF).same_as(JOB)
    assert replace(JOB, session_conf=CONF).fingerprint == JOB.fingerprint


def test_a_task_has_its_jobs_settings_from_its_next_start_on() -> None:
    script = Script(retries=1)
    (started,) = [command for command in script.give(A0) if isinstance(command, commands.StartAttempt)]
    assert order_of(started.run, root=None, group_id="g").session_conf == {}
    script.begin(A0)
    assert script.define(session_conf=CONF) == []
    (started,) = [command for command in script.fail(A0) if isinstance(command, commands.StartAttempt)]
    assert order_of(started.run, root=None, group_id="g").session_conf == CONF


@pytest.mark.parametrize(
    "name",
    [
        "spark.sql.shuffle.partitions",
        "spark.sql.adaptive.coalescePartitions.enabled",
        "spark.sql.ansi.enabled",
        "spark.sql.session.timeZone",
        "spark.scheduler.pool",
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "spark.databricks.delta.retryWriteConflict.limit",
    ],
)
def test_a_worker_allows_what_decides_how_a_query_runs(name: str) -> None:
    USUAL_CONF.check({name: "1"})


@pytest.mark.parametrize(
    "name",
    [
        "fs.s3a.endpoint",
        "fs.s3a.aws.credentials.provider",
        "fs.defaultFS",
        "hadoop.security.credential.provider.path",
        "spark.hadoop.fs.s3a.endpoint",
        "spark.sql.catalog.lake",
        "spark.sql.catalog.lake.uri",
        "spark.sql.defaultCatalog",
        "spark.sql.hive.metastore.jars",
        "spark.sql.adaptive.customCostEvaluatorClass",
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.sources.commitProtocolClass",
        "spark.sql.parquet.output.committer.class",
        "spark.sql.shuffle.partitions\n",
        "FS.S3A.ENDPOINT",
        "anything.else",
    ],
)
def test_a_worker_sets_nothing_that_may_divert_its_data_or_secrets(name: str) -> None:
    """Nor anything else of that job; and another try would not help."""
    told: dict[str, str] = {}
    session: Any = SimpleNamespace(conf=SimpleNamespace(set=told.__setitem__))
    with pytest.raises(
        SessionConfError, match=r"a worker does not let a job set .*: give it to the workers"
    ) as refused:
        set_conf(session, {**CONF, name: "1"}, USUAL_CONF)
    assert repr(name) in str(refused.value)
    assert not told
    assert not is_retryable(refused.value)


def test_a_worker_can_allow_more_and_a_refusal_says_so() -> None:
    names = {"spark.sql.iceberg.vectorization.enabled": "false", "spark.wap.id": "1"}
    with pytest.raises(SessionConfError, match=r"or allow 'spark.sql.*', 'spark.wap.id' by .* allowed_session_conf$"):
        USUAL_CONF.check(names)
    AllowedConf(("spark.sql.iceberg.*", "spark.wap.id")).check({**names, **CONF})


@pytest.mark.parametrize(
    "name",
    [
        "fs.s3a.endpoint",
        "hadoop.security.credential.provider.path",
        "hive.metastore.uris",
        "parquet.encryption.kms.instance.url",
        "spark.hadoop.fs.s3a.endpoint",
        "Spark.hadoop.fs.s3a.endpoint",
        "spark.HADOOP.fs.s3a.endpoint",
        "spark.hive.metastore.uris",
        "spark.sql.catalog.lake.uri",
        "spark.sql.defaultCatalog",
        "spark.sql.streaming.stateStore.providerClass",
        "spark.sql.sources.commitProtocolClass",
        "spark.delta.logStore.s3a.impl",
        "spark.sql.sources.default",
        "spark.sql.execution.pyspark.python",
        "spark.sql.streaming.checkpointLocation",
        "spark.sql.shuffle.x\nfs.s3a.endpoint",
    ],
)
def test_what_diverts_data_and_secrets_is_refused_whatever_a_worker_allows(name: str) -> None:
    with pytest.raises(SessionConfError, match="does not let a job set") as refused:
        AllowedConf(("spark.sql.*", "spark.delta.*")).check({name: "1"})
    assert "allowed_session_conf" not in str(refused.value), "nothing could be done about it there"


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "",
        "fs.*",
        "*.fs.*",
        "hadoop.*",
        "spark.hadoop.*",
        "spark.sql.catalog.*",
        "spark.[s]ql.*",
        "a b",
        "spark.*",
        "spark.hadoop*",
    ],
)
def test_a_pattern_that_could_allow_nothing_is_refused_when_the_worker_starts(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"no worker lets jobs set|must be names of Spark's settings"):
        AllowedConf((pattern,))


def refusing_session() -> Any:
    def refuse(_name: str, _value: str) -> None:
        raise AnalysisException("[CANNOT_MODIFY_CONFIG] Cannot modify it.\nSee also elsewhere")

    return SimpleNamespace(conf=SimpleNamespace(set=refuse))


SAID = r"Spark refuses 'spark\.sql\.ansi\.enabled' for a session: \[CANNOT_MODIFY_CONFIG\] Cannot modify it\.$"


def test_what_spark_refuses_is_named_and_not_tried_again() -> None:
    with pytest.raises(SessionConfError, match=rf"^the job's session_conf: {SAID}") as refused:
        set_conf(refusing_session(), {"spark.sql.ansi.enabled": "1"}, USUAL_CONF)
    assert not is_retryable(refused.value)
    assert describe(refused.value) == f"SessionConfError: {refused.value}", "said once"
