"""Which clusters a worker connects to, and what a job may choose about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.jobs.kafka_clients import CLUSTERS_ENV, KafkaClient, KafkaClientError, check_options, client_for


def clusters(folder: Path, text: str) -> dict[str, str]:
    """The environment of a worker with this file."""
    file = folder / "clusters.json"
    file.write_text(text)
    return {CLUSTERS_ENV: str(file)}


def test_a_worker_without_a_file_has_no_secrets_to_send() -> None:
    for environment in ({}, {CLUSTERS_ENV: ""}):
        assert client_for("anywhere:9092", environment) == KafkaClient(spark={}, librdkafka={})


def test_a_worker_with_a_file_connects_to_the_clusters_in_it_as_it_says(tmp_path: Path) -> None:
    environment = clusters(
        tmp_path,
        """{"a:9093,b:9093": {"spark": {"kafka.security.protocol": "SSL"}, "librdkafka": {"security.protocol": "ssl"}},
            "plain:9092": {}}""",
    )
    assert client_for("a:9093,b:9093", environment) == KafkaClient(
        spark={"kafka.security.protocol": "SSL"}, librdkafka={"security.protocol": "ssl"}
    )
    assert client_for("plain:9092", environment) == KafkaClient()
    for servers in ("b:9093,a:9093", "a:9093", "a:9093,b:9093,c:9093", "A:9093,b:9093", "elsewhere:9092", ""):
        with pytest.raises(KafkaClientError, match="bootstrap_servers: this worker does not read from"):
            client_for(servers, environment)


@pytest.mark.parametrize(
    "text", ["", "geheim", '{"a:1": {"sasl.password": "geheim"}}', '{"a:1": {"spark": {"geheim": 1}}}', '["geheim"]']
)
def test_a_file_that_cannot_be_used_is_named_without_its_secrets(tmp_path: Path, text: str) -> None:
    environment = clusters(tmp_path, text)
    with pytest.raises(KafkaClientError, match=rf"{CLUSTERS_ENV}: this worker can't read .*clusters\.json") as refused:
        client_for("a:1", environment)
    assert "geheim" not in str(refused.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(KafkaClientError, match=f"{CLUSTERS_ENV}: .*No such file"):
        client_for("a:1", {CLUSTERS_ENV: str(tmp_path / "missing.json")})


@pytest.mark.parametrize(
    "name",
    [
        "startingOffsets",
        "startingOffsetsByTimestampStrategy",
        "failOnDataLoss",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "minPartitions",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "kafka.group.id",
        "kafka.isolation.level",
        "kafka.max.poll.records",
        "kafka.max.partition.fetch.bytes",
        "kafka.fetch.max.wait.ms",
        "kafka.request.timeout.ms",
    ],
)
def test_a_job_chooses_how_much_is_read_and_when(name: str) -> None:
    check_options({name: "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka.bootstrap.servers", "elsewhere:9092"),
        ("KAFKA.BOOTSTRAP.SERVERS", "elsewhere:9092"),
        ("subscribePattern", ".*"),
        ("assign", "{}"),
        ("kafka.security.protocol", "PLAINTEXT"),
        ("kafka.sasl.jaas.config", "${file:/etc/kafka/secrets.properties:jaas}"),
        ("kafka.sasl.kerberos.kinit.cmd", "/bin/sh"),
        ("kafka.sasl.login.callback.handler.class", "com.example.Handler"),
        ("kafka.sasl.oauthbearer.token.endpoint.url", "file:///etc/passwd"),
        ("kafka.interceptor.classes", "com.example.Interceptor"),
        ("kafka.metric.reporters", "com.example.Reporter"),
        ("kafka.ssl.keystore.location", "/etc/kafka/keystore.jks"),
        ("kafka.config.providers", "file"),
        ("kafka.config.providers.file.class", "org.apache.kafka.common.config.provider.FileConfigProvider"),
        ("kafka.client.id", "${file:/etc/kafka/secrets.properties:jaas}"),
        ("path", "/etc"),
    ],
)
def test_a_job_chooses_neither_a_server_nor_a_secret_nor_code(name: str, value: str) -> None:
    with pytest.raises(KafkaClientError, match="options: a job can't set"):
        check_options({"maxOffsetsPerTrigger": "1", name: value})


@pytest.mark.parametrize("value", [["${file:/etc/kafka/secrets.properties:jaas}"], {"${": ""}, 1, None])
def test_an_option_is_a_text(value: object) -> None:
    with pytest.raises(KafkaClientError, match=r"options: a job can't set 'kafka\.client\.id'"):
        check_options({"kafka.client.id": value})
