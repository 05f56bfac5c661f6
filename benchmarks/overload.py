"""A group that is too slow for its work must still make progress: 20,000 tasks on 20 worker processes of one machine.

Sessions of 10 s, and the runner ``noop``, so that only the cost of the group is measured. Printed with the ideal:
finished tasks, records written per task, rounds, and how long after the leader's decision its record was in the topic
(before that, a returning worker has to join again, and nobody sees the assignment).

The goal is not speed. It is that no worker loses its session, as all its work would be assigned again then.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from airflow_provider.group.live.shared import shared_topics
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import JobDefinition, TopicNames, decode
from benchmarks.load import measure

_ROOT: Final = Path(__file__).parent.parent
_GROUP: Final = "overload"
_START_S: Final = 180.0
_READ_S: Final = 30.0
_END: Final = KafkaError._PARTITION_EOF  # noqa: SLF001


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many tasks run on how many workers.

    :param task_s: how long each task takes
    :param seconds: how long to measure, from the submission of the job on
    """

    tasks: int = 20_000
    workers: int = 20
    slots: int = 2
    task_s: float = 1.0
    seconds: float = 60.0

    @property
    def ideal(self) -> int:
        """How many tasks would finish if all slots were always busy."""
        return min(self.tasks, int(self.workers * self.slots * self.seconds / self.task_s))


def run(folder: Path, load: Load = Load()) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    # So that the time in a record is that of its arrival.
    with LocalBroker(properties={"log.message.timestamp.type": "LogAppendTime"}) as broker:
        settings = KafkaSettings.from_extra({"bootstrap.servers": broker.bootstrap_servers}, conn_id="benchmark")
        began_ms = _work(settings, load, folder)
        figures = {**_figures(settings, began_ms), **_gauges(folder), "ideal": load.ideal, "seconds": load.seconds}
    _show(load, figures)
    return figures


def _work(settings: KafkaSettings, load: Load, folder: Path) -> int:
    """Start the workers, submit the job when all have joined, and end them when the time has passed.

    :returns: when the job was submitted (wall clock, milliseconds since 1970)
    """
    for old in folder.glob("w*.*"):
        old.unlink()
    with ExitStack() as ending:
        workers = [_worker(settings, load, folder / f"w{number}", ending) for number in range(load.workers)]
        began = asyncio.run(submit(settings, load))
        time.sleep(load.seconds)
        # Paused, so that they write nothing more while they are ended one after another.
        for worker in workers:
            worker.send_signal(signal.SIGSTOP)
    return began


def _worker(settings: KafkaSettings, load: Load, path: Path, ending: ExitStack) -> subprocess.Popen[bytes]:
    log = ending.enter_context(path.with_suffix(".log").open("wb"))
    program = (sys.executable, "-m", "benchmarks.overloaded", str(path.with_suffix(".json")))
    worker = ("worker", _GROUP, "--worker", path.name, "--runner", "noop", "--slots", str(load.slots))
    process = subprocess.Popen(
        [*program, *worker, "--session-timeout-ms", "10000", "--bootstrap-servers", settings.bootstrap_servers],
        cwd=_ROOT,
        stdout=log,
        stderr=log,
    )
    ending.callback(process.wait)
    ending.callback(process.kill)
    return process


async def submit(settings: KafkaSettings, load: Load) -> int:
    async with shared_topics(settings, _GROUP, WORKER) as topics:
        await topics.wait_for(
            lambda _jobs, status: status.group is not None and len(status.group.members) == load.workers,
            timeout_s=_START_S,
        )
        job = JobDefinition(
            name="job",
            entry_point="noop:job",
            config={"seconds": load.task_s},
            max_tasks=load.tasks,
            run_key="r",
            submitted_at_ms=int(time.time() * 1000),
        )
        await topics.submit(job)
    return job.submitted_at_ms


def _figures(settings: KafkaSettings, began_ms: int) -> dict[str, Any]:
    """The figures from the topics."""
    names = TopicNames.of(_GROUP)
    written: Counter[str] = Counter()
    finished, delays, epochs = set(), [], []
    for key, value, at_ms in records_of(settings, names.status):
        if at_ms < began_ms or value is None:
            continue
        record, kind = decode(value), key.partition(":")[0]
        if kind == "task":
            written[record["state"]] += 1
            if record["state"] == "finished" and record["task"][1] >= 0:
                finished.add(record["task"][1])
        else:
            written[kind] += 1
        if kind == "group":
            epochs.append(record["epoch"])
            delays.append((at_ms - record["at_ms"]) / 1000)
    return {
        "finished": len(finished),
        "written": dict(written),
        "events": sum(at_ms >= began_ms for _, _, at_ms in records_of(settings, names.events)),
        "rounds": len(epochs),
        "epochs": max(epochs, default=0) - min(epochs, default=0),
        "record_delay_s": {"median": statistics.median(delays), "worst": max(delays)} if delays else None,
    }


def records_of(settings: KafkaSettings, topic: str) -> Iterator[tuple[str, bytes | None, int]]:
    """All records of a topic: key, value, time of arrival."""
    consumer = Consumer({**settings.librdkafka(), "group.id": "benchmark", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        while True:
            message = consumer.poll(_READ_S)
            assert message is not None, f"{topic} could not be read to its end"
            error = message.error()
            if error is not None:
                assert error.code() == _END, error
                return
            key, value = message.key(), message.value()
            assert isinstance(key, bytes)
            yield key.decode(), value if isinstance(value, bytes) else None, message.timestamp()[1]
    finally:
        consumer.close()


def _gauges(folder: Path) -> dict[str, Any]:
    """What the workers' processes measured themselves."""
    gauges = [json.loads(path.read_text()) for path in folder.glob("w*.json")]
    return {
        "late_s": max((gauge["late_ms"] for gauge in gauges), default=0) / 1000,
        "cpu_s": sum(gauge["cpu_s"] for gauge in gauges),
        "rss_mb": max((gauge["rss_mb"] for gauge in gauges), default=0),
    }


def _show(load: Load, figures: dict[str, Any]) -> None:
    written = sum(figures["written"].values())
    each = written / figures["finished"] if figures["finished"] else float("inf")
    delay = figures["record_delay_s"]
    print(
        f"\n{load.tasks:,} tasks of {load.task_s:g} s on {load.workers} workers of {load.slots} slots,"
        f" {load.seconds:g} s, {os.cpu_count()} cores:\n"
        f"  finished: {figures['finished']:,} (with all slots always busy: {load.ideal:,})\n"
        f"  status records: {written:,}, {each:.1f} for each finished task; {figures['events']:,} events\n"
        f"    {', '.join(f'{count:,} {what}' for what, count in sorted(figures['written'].items()))}\n"
        f"  rounds recorded: {figures['rounds']}, over {figures['epochs']} epochs\n"
        f"  the group's record was stored after: "
        + ("none was" if delay is None else f"{delay['median']:.2f} s (median), {delay['worst']:.2f} s (worst)")
        + f"\n  an event loop was late by at most {figures['late_s']:.1f} s;"
        f" processor time of the workers: {figures['cpu_s']:.0f} s",
        flush=True,
    )


def main() -> None:
    measure("overload", __doc__, Load, run)


if __name__ == "__main__":
    main()
