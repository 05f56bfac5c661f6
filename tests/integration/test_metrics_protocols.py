"""Airflow's own stats send every metric: by OpenTelemetry, and by StatsD with tags."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from served import served
from statsd_server import statsd_server
from waiting import DEADLINE_S, eventually

from airflow_provider.state.metrics.declared import DECLARED, Kind

pytestmark = pytest.mark.thorough

SAY_EACH = """
import asyncio
from airflow_provider.integration.stats.airflow_stats import of_process
from airflow_provider.state.metrics.declared import DECLARED
from airflow_provider.state.metrics.sample import Sample

async def say_each():
    outlet = of_process().outlet
    outlet.send(
        Sample(metric=metric, value=3, tags=tuple(f"a.{tag.value}" for tag in metric.tags)) for metric in DECLARED
    )
    await outlet.settle()

asyncio.run(say_each())
"""
INSTRUMENTS = {"gauge": Kind.GAUGE, "sum": Kind.COUNTER, "exponential_histogram": Kind.TIMING, "histogram": Kind.TIMING}
STATSD = {Kind.GAUGE: "g", Kind.COUNTER: "c", Kind.TIMING: "ms"}
TAGS = {metric.name: {tag.value: f"a.{tag.value}" for tag in metric.tags} for metric in DECLARED}


async def say_each(home: Path, **options: str) -> None:
    """Send each metric once, in a process of its own: OpenTelemetry is set up once in each process."""
    configured = {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in options.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SAY_EACH, env={**os.environ, "AIRFLOW_HOME": str(home), **configured}
    )
    assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0


class Collector(BaseHTTPRequestHandler):
    """An OpenTelemetry collector that keeps what it is sent."""

    bodies: list[bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None: ...  # noqa: A002  the name is the library's


@pytest.fixture
def collector() -> Iterator[str]:
    """Its port."""
    Collector.bodies = []
    with served(Collector) as port:
        yield str(port)


async def test_opentelemetry_gets_each_metric_with_its_attributes(collector: str, tmp_path: Path) -> None:
    await say_each(tmp_path, otel_on="True", otel_host="127.0.0.1", otel_port=collector, legacy_names_on="False")
    heard, tags = {}, {}
    for body in Collector.bodies:
        for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (each for scope in of_resource.scope_metrics for each in scope.metrics):
                name, instrument = metric.name.removeprefix("airflow."), metric.WhichOneof("data")
                if name in TAGS:
                    heard[name] = INSTRUMENTS[instrument]
                    (point,) = getattr(metric, instrument).data_points
                    tags[name] = {each.key: each.value.string_value for each in point.attributes}
    assert heard == {metric.name: metric.kind for metric in DECLARED}
    assert tags == TAGS


async def test_statsd_gets_each_metric_with_tags_and_under_its_long_name(tmp_path: Path) -> None:
    expected = dict[str, str]()
    for metric in DECLARED:
        tagged = "".join(f",{tag}={value}" for tag, value in TAGS[metric.name].items())
        long = "".join(f".a__{tag.value}" for tag in metric.tags)
        for name in (tagged, long):
            expected[f"airflow.{metric.name}{name}"] = STATSD[metric.kind]
    async with statsd_server() as server:
        port = str(server.port)
        await say_each(
            tmp_path, statsd_on="True", statsd_host="127.0.0.1", statsd_port=port, statsd_influxdb_enabled="True"
        )

        def heard() -> dict[str, str]:
            return {line.name: line.kind for line in server.lines if line.name.startswith("airflow.cospark.")}

        await eventually(lambda: len(heard()) >= len(expected), lambda: f"heard: {heard()}")
        assert heard() == expected
