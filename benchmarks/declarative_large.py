"""One declarative group of 1,000 workers with 100,000 tasks: how long a join takes, and how large its records are.

The coordinator is ``cospark coordinator``, on a real broker; the members are light ones
(:mod:`benchmarks.light_members`) in this process. No task really runs, as only the group is measured. *From the join to
the target* ends when each member has been sent its target, and has applied it.
"""

from __future__ import annotations

import asyncio
import functools
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from airflow_provider.group.declarative.protocol.sharding import RECORDS_TOPIC, REPLIES_TOPIC, REQUESTS_TOPIC
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records.envelope import LARGEST_VALUE
from benchmarks.coordinated_groups import coordinator, cpu_of, crowd, settings_of, submit, until
from benchmarks.light_members import settled

_WORKERS: Final = 1_000
_JOBS: Final = 100
_TASKS: Final = 1_000
_GROUP: Final = "large"
_JOINS: Final = 3
_WITHIN_S: Final = 900.0
_READ_S: Final = 10.0
_END: Final = -191


def run(folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures.

    :param folder: for the coordinator's log
    """
    with LocalBroker() as broker, coordinator(broker.bootstrap_servers, folder) as process:
        assert broker.pid is not None
        pids = {"coordinator": process.pid, "broker": broker.pid, "members": os.getpid()}
        return asyncio.run(_run(broker.bootstrap_servers, pids))


async def _run(servers: str, pids: dict[str, int]) -> dict[str, Any]:
    settings, everything = settings_of(servers), _JOBS * _TASKS
    await submit(settings, _GROUP, jobs=_JOBS, tasks=_TASKS)
    async with crowd(settings) as members:

        def balanced(least_epoch: int = 1) -> bool:
            group = members.members[_GROUP]
            return group[0].epoch >= least_epoch and settled(group, everything)

        for number in range(_WORKERS):
            members.join(_GROUP, number)
        first_s = await until(balanced, "all have joined, and have their share", within_s=_WITHIN_S)
        members.heard.clear()
        joins_s, cpu = [], []
        for number in range(_JOINS):
            epoch = members.members[_GROUP][0].epoch
            members.join(_GROUP, _WORKERS + number)
            taking = asyncio.ensure_future(until(functools.partial(balanced, epoch + 1), "a join", within_s=_WITHIN_S))
            cpu.append(await cpu_of(pids, taking))
            joins_s.append(taking.result())
        heard = members.heard
        assigning_s, installing_s = list(heard.assigning_s), list(heard.installing_s)
        wrong = [*heard.failed, *heard.refused]
    sizes = {topic: max(_sizes(settings, topic)) for topic in (REQUESTS_TOPIC, REPLIES_TOPIC, RECORDS_TOPIC)}
    print(
        f"{_WORKERS:,} workers, {everything:,} tasks, {os.cpu_count()} cores: all joined and balanced in"
        f" {first_s:.0f} s\n"
        f"one more joins: {statistics.median(joins_s):.1f} s to the target (worst of {_JOINS}: {max(joins_s):.1f} s);"
        f" of it the assignor {statistics.median(assigning_s):.2f} s, from prepare to installed"
        f" {statistics.median(installing_s):.2f} s; requests refused: {len(wrong)}\n"
        f"the largest request, reply and record: {', '.join(f'{size:,}' for size in sizes.values())} bytes before"
        f" compression, of {LARGEST_VALUE:,}"
    )
    return {
        "first_s": first_s,
        "joins_s": joins_s,
        "assigning_s": assigning_s,
        "installing_s": installing_s,
        "cpu": cpu,
        "wrong": wrong,
        "largest_bytes": sizes,
    }


def _sizes(settings: KafkaSettings, topic: str) -> Iterator[int]:
    """The sizes of all values of a topic."""
    consumer = Consumer({**settings.librdkafka(), "group.id": "benchmark", "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, timeout=_READ_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    left = dict.fromkeys(partitions, True)
    try:
        while any(left.values()):
            message = consumer.poll(_READ_S)
            assert message is not None, f"{topic} could not be read to its end"
            error = message.error()
            if error is None:
                yield len(message.value() or b"")
            elif error.code() == _END:
                left[message.partition() or 0] = False
    finally:
        consumer.close()
