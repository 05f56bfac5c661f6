"""How large Kafka's record of a round is, and whether a broker with default settings takes it.

1,000 workers with the 100,000 tasks of 1,000 jobs join a group on a real broker, and the leader sends each what it has,
in version 3 and in version 4 of the protocol. The tasks are in random order, as after many rounds: a worker has one of
each of a hundred jobs. The url of a worker has 120 characters. The members only send the requests.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from airflow_provider.group.classic.wire import LEARNING
from airflow_provider.group.classic.wire.extensible import ExtensibleAssignment, ExtensibleState
from airflow_provider.kafka.group_requests.messages import JoinRequest, JoinResponse, NodeId, SyncRequest
from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.settings import KafkaSettings
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode
from airflow_provider.values.model import ConfigOffset, Epoch, SubProtocol, TaskId, WorkerId
from airflow_provider.values.packed_tasks import PackedTasks

_WORKERS: Final = 1_000
_JOBS: Final = 1_000
_TASKS_OF_JOB: Final = 100
_NAMES: Final = {
    "9 characters": "job-{:05}",
    "25 characters": "sales-orders-ingest-{:05}",
    "25 characters, of words": "",
}
_WORDS: Final = (
    ["sales", "growth", "finance", "ops", "risk", "crm", "bi", "core", "supply"],
    [
        "orders",
        "clients",
        "bills",
        "payments",
        "returns",
        "clicks",
        "events",
        "goods",
        "stock",
        "prices",
        "refunds",
        "tickets",
        "users",
        "claims",
    ],
    ["ingest", "dedupe", "join", "enrich", "export", "hourly", "backfill", "merge", "clean", "score"],
    ["v1", "v2", "eu", "us", "apac"],
)
_URL: Final = (
    "https://airflow.data.example.com/dags/streams_grp/runs/scheduled__2026-11-30T14:30:00+00:00"
    "/tasks/work.worker/mapped/{:03}"
)
_SETTINGS_OF_KAFKA: Final = {"group.initial.rebalance.delay.ms": 3_000}
_OFFSET: Final = ConfigOffset(1_234_567)


def run(_folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures."""
    cells = []
    with tempfile.TemporaryDirectory() as data, LocalBroker(data=Path(data), properties=_SETTINGS_OF_KAFKA) as broker:
        for names, form in _NAMES.items():
            shares = _shares(form)
            for protocol in LEARNING:
                before = _stored(Path(data))
                error, sent = asyncio.run(_round(broker.bootstrap_servers, protocol, shares))
                stored = _stored(Path(data)) - before
                cell = {"names": names, "protocol": protocol.value, "sent": sent, "stored": stored, "error": error.name}
                cells.append(cell)
                print(
                    f"{names:>24} {protocol.value:>11}: {sent:>9,} bytes of metadata and assignments,"
                    f" {stored:>9,} stored: {error.name}",
                    flush=True,
                )
    return {"cells": cells}


def _shares(form: str) -> list[PackedTasks]:
    rng = random.Random(7)
    names = [form.format(job) for job in range(_JOBS)] if form else _of_words(rng)
    tasks = [TaskId(name, index) for name in names for index in range(-1, _TASKS_OF_JOB)]
    rng.shuffle(tasks)
    return [PackedTasks.of(tasks[worker::_WORKERS]) for worker in range(_WORKERS)]


def _of_words(rng: random.Random) -> list[str]:
    names: set[str] = set()
    while len(names) < _JOBS:
        name = "_".join(rng.choice(words) for words in _WORDS)
        names.add(name[:25].ljust(25, "0"))
    return sorted(names)


def _stored(data: Path) -> int:
    """The bytes of the topic in which the coordinator keeps its groups."""
    return sum(file.stat().st_size for file in data.glob("**/__consumer_offsets-*/*.log"))


async def _round(servers: str, protocol: SubProtocol, shares: Sequence[PackedTasks]) -> tuple[KafkaErrorCode, int]:
    """One round of all; how the coordinator answers the leader, and how much it was sent."""
    codec, version = LEARNING[protocol], protocol.version
    group = f"{protocol.value}-{random.randrange(10**9)}"
    metadata = [
        codec.encode_metadata(
            ExtensibleState(
                version=version,
                url=_URL.format(number),
                config_offset=_OFFSET,
                owned=tasks,
                slots=4,
                epoch=Epoch(1234),
            )
        )
        for number, tasks in enumerate(shares)
    ]
    settings = KafkaSettings.from_extra(
        {"bootstrap.servers": servers, "request.timeout.ms": 300_000}, conn_id="benchmark"
    )
    async with GroupTransport(settings) as transport:
        node = await _coordinator(transport, group)
        joins = await asyncio.gather(
            *(transport.join(node, _join(group, number, protocol, said)) for number, said in enumerate(metadata))
        )
        if len({(joined.error, joined.generation) for joined in joins}) != 1:
            raise RuntimeError("the workers are not in one round")
        leader = next(joined for joined in joins if joined.members)
        assignments = {
            joined.member_id: codec.encode_assignment(
                ExtensibleAssignment(
                    version=version,
                    leader=leader.member_id,
                    leader_url=_URL.format(0),
                    config_offset=_OFFSET,
                    target=tasks,
                    epoch=Epoch(1235),
                )
            )
            for joined, tasks in zip(joins, shares, strict=True)
        }
        syncs = await asyncio.gather(
            *(
                transport.sync(node, _sync(group, number, joined, protocol, assignments if joined is leader else {}))
                for number, joined in enumerate(joins)
            )
        )
        error = syncs[joins.index(leader)].error
        if error is KafkaErrorCode.NONE and [each.assignment for each in syncs] != list(assignments.values()):
            raise RuntimeError("not all have been sent what they are to have")
        return error, sum(map(len, metadata)) + sum(map(len, assignments.values()))


async def _coordinator(transport: GroupTransport, group: str) -> NodeId:
    while True:
        found = await transport.find_coordinator(group)
        if found.error is KafkaErrorCode.NONE:
            nobody = await transport.describe([group])
            if nobody[0].error is not KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return found.node
        await asyncio.sleep(0.1)


def _join(group: str, number: int, protocol: SubProtocol, metadata: bytes) -> JoinRequest:
    return JoinRequest(
        group_id=group,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        group_instance_id=WorkerId(f"worker-{number:04}"),
        protocols=((protocol.value, metadata),),
        reason="a benchmark",
    )


def _sync(
    group: str, number: int, joined: JoinResponse, protocol: SubProtocol, assignments: Mapping[Any, bytes]
) -> SyncRequest:
    return SyncRequest(
        group_id=group,
        generation=joined.generation,
        member_id=joined.member_id,
        group_instance_id=WorkerId(f"worker-{number:04}"),
        protocol=protocol.value,
        assignments=assignments,
    )
