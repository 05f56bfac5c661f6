"""The peer of ``benchmarks.triggers``: plain aiokafka with only group requests. ``python -m benchmarks.bare``.

As many static members join as many groups, each on a connection of its own. They share nothing, and heartbeat on one
connection. There are no topics, no leases, no records, and nobody who would notice new work.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import errors
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest

from benchmarks.gauges import gauged, threads

_SESSION_MS: Final = 10_000
_HEARTBEAT_S: Final = 3.0
_AGAIN_S: Final = 0.2
_QUIET_S: Final = 5.0
_REBALANCES: Final = (errors.RebalanceInProgressError.errno, errors.IllegalGenerationError.errno)


@dataclass(slots=True)
class Member:
    """A static member without work."""

    client: AIOKafkaClient
    group: str
    name: str
    node: int = -1
    member_id: str = ""
    generation: int = -1
    lost: int = 0

    async def live(self) -> None:
        await self.join()
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            request = HeartbeatRequest(self.group, self.generation, self.member_id)
            answer = await self.client.send(self.node, request, group="heartbeats")
            if answer.error_code:
                self.lost += answer.error_code not in _REBALANCES
                await self.join()

    async def join(self) -> None:
        while not await self._joined():  # noqa: ASYNC110  asks a broker each time
            await asyncio.sleep(_AGAIN_S)

    async def _joined(self) -> bool:
        found = await self.client.send(self.client.get_random_node(), FindCoordinatorRequest(self.group, 0))
        if found.error_code:
            return False
        self.node, own = found.coordinator_id, (self.group, self.name)
        protocols = [("sessioned", b"nothing")]
        join = JoinGroupRequest(self.group, _SESSION_MS, 60_000, self.member_id, self.name, "connect", protocols)
        try:
            answer = await self.client.send(self.node, join, group=own)
            if answer.error_code:
                return False
            self.member_id = answer.member_id
            shares = [(member_id, b"") for member_id, _, _ in answer.members]
            sync = SyncGroupRequest(self.group, answer.generation_id, self.member_id, self.name, shares)
            told = await self.client.send(self.node, sync, group=own)
        finally:
            connection = self.client._conns.pop((self.node, own), None)  # noqa: SLF001
            if connection is not None:
                connection.close()
        self.generation = answer.generation_id if not told.error_code else -1
        return self.generation >= 0


async def measure(bootstrap_servers: str, groups: list[str], members: int, *, seconds: float) -> dict[str, Any]:
    client = AIOKafkaClient(bootstrap_servers=bootstrap_servers, request_timeout_ms=65_000)
    await client.bootstrap()
    all_members = [Member(client, group, f"{group}.worker_{n}") for n in range(members) for group in groups]
    began = time.monotonic()
    async with gauged() as joining:
        living = [asyncio.ensure_future(member.live()) for member in all_members]
        settled_s = 0.0
        while time.monotonic() - began < settled_s + _QUIET_S:
            await asyncio.sleep(0.1)
            generations = {(member.group, member.generation) for member in all_members}
            if len(generations) != len(groups) or any(generation < 0 for _, generation in generations):
                settled_s = time.monotonic() - began
    async with gauged() as steady:
        await asyncio.sleep(seconds)
    for task in living:
        task.cancel()
    await asyncio.gather(*living, return_exceptions=True)
    with contextlib.suppress(Exception):
        await client.close()
    return {
        "members": len(all_members),
        "groups": len(groups),
        "threads": threads(),
        "joined_s": round(settled_s, 2),
        "joining": joining.to_json(),
        "steady": steady.to_json(),
        "sessions_lost": sum(member.lost for member in all_members),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bare", description=__doc__)
    parser.add_argument("bootstrap_servers")
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--members", type=int, default=50, help="of each group")
    parser.add_argument("--seconds", type=float, default=60.0, help="to look at the steady state")
    args = parser.parse_args()
    groups = [f"bare-{number}" for number in range(args.groups)]
    print(json.dumps(asyncio.run(measure(args.bootstrap_servers, groups, args.members, seconds=args.seconds))))


if __name__ == "__main__":
    main()
