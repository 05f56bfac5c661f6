"""One process that holds many deferred workers, as a triggerer does: ``python -m benchmarks.triggers``.

The triggers are the product's own, and so is everything below them. What surrounds them in a triggerer is missing: the
database, a log file for each trigger, the messages to the scheduler. The connection is in the environment, where
Airflow finds it, and so is ``gc_freeze``, which is meant for so many triggers. Prints its figures as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.gauges import gauged, rss_mb, threads

if TYPE_CHECKING:
    from airflow_provider.group.classic.member.state import MemberState
    from airflow_provider.kafka.topics.topic_writer import GroupTopics
    from airflow_provider.triggers.worker import WorkerTrigger

_DEADLINE_S: Final = 300.0
_QUIET_S: Final = 5.0
_LOOK_S: Final = 0.1
_IN_A_TURN: Final = 20


@dataclass(slots=True)
class Held:
    """A trigger, and the task that runs it."""

    trigger: WorkerTrigger
    running: asyncio.Task[None]

    @property
    def state(self) -> MemberState | None:
        worker = self.trigger._exit_requests.worker  # noqa: SLF001  nobody else has a reason to look
        return None if worker is None else getattr(worker._worker.member, "state", None)  # noqa: SLF001  likewise


class Triggerer:
    """Runs the triggers of deferred workers."""

    def __init__(self) -> None:
        self.held: list[Held] = []

    def take(self, group: str, worker: str) -> None:
        trigger = trigger_of(group, worker)
        self.held.append(Held(trigger, asyncio.ensure_future(_events_of(trigger))))

    def settled(self) -> bool:
        """Whether each worker is in its group's last round, and each group has all its workers."""
        sizes: dict[str, int] = {}
        for each in self.held:
            state = each.state
            if state is None or state.phase.value != "stable" or state.unadopted is not None or state.record is None:
                return False
            if state.record.generation != state.generation:
                return False
            sizes[each.trigger.spec.member.group_id] = len(state.record.members)
        return sum(sizes.values()) == len(self.held)

    def sessions(self) -> list[tuple[str, int]]:
        """Values that change when a session is lost, or a group rebalances."""
        states = [each.state for each in self.held]
        return [(state.member_id, state.generation) for state in states if state is not None]

    def ended(self) -> list[str]:
        """Why triggers have ended; none should."""
        return [repr(each.running.exception()) for each in self.held if each.running.done()]

    async def close(self) -> None:
        await asyncio.gather(*(each.trigger.cleanup() for each in self.held))
        for each in self.held:
            each.running.cancel()
        await asyncio.gather(*(each.running for each in self.held), return_exceptions=True)


async def _events_of(trigger: WorkerTrigger) -> None:
    async for event in trigger.run():
        raise RuntimeError(f"{trigger.spec.member.worker} fired: {event}")


def trigger_of(group: str, worker: str) -> WorkerTrigger:
    """The trigger of a worker that deferred before it joined."""
    from airflow_provider.assignment.policy import Deferred
    from airflow_provider.group.classic.member.saved import save
    from airflow_provider.group.classic.member.settings import MemberSettings
    from airflow_provider.group.classic.member.state import MemberState
    from airflow_provider.integration.memberships.worker_values import WorkerSpec, WorkerStory
    from airflow_provider.kafka.clock import now_ms, wall_ms
    from airflow_provider.triggers.worker import WorkerTrigger
    from airflow_provider.values.model import WorkerId
    from airflow_provider.worker.settings import Until

    settings = MemberSettings(
        group_id=group,
        worker=WorkerId(worker),
        url=f"http://airflow.example/dags/etl/runs/manual/tasks/{worker}",
    )
    spec = WorkerSpec(member=settings, slots=2, until=Until.FOREVER, policy=Deferred())
    saved = save(MemberState(settings=settings), now_ms=now_ms(), wall_ms=wall_ms())
    return WorkerTrigger(
        kafka_conn_id="kafka_default",
        plan=json.loads(json.dumps(spec.to_json())),
        saved={"v": 1, "member": saved, "began_ms": wall_ms()},
        story=WorkerStory(began_ms=wall_ms()).to_json(),
    )


async def _until(holds: Callable[[], bool], triggerer: Triggerer, *, quiet_s: float = _QUIET_S) -> float:
    """Wait until something has held for a while.

    :returns: after how many seconds it began to
    """
    began = time.monotonic()
    since: float | None = None
    while time.monotonic() < began + _DEADLINE_S:
        if ended := triggerer.ended():
            raise RuntimeError(f"{len(ended)} triggers have ended: {ended[0]}")
        since = (since or time.monotonic()) if holds() else None
        if since is not None and time.monotonic() - since >= quiet_s:
            return since - began
        await asyncio.sleep(_LOOK_S)
    states: dict[str, int] = {}
    for each in triggerer.held:
        told = "none" if each.state is None else f"{each.state.phase.value} {each.state.generation}"
        states[told] = states.get(told, 0) + 1
    raise TimeoutError(f"not settled within {_DEADLINE_S:.0f} s: {states}")


async def _finished_work(topics: GroupTopics, tasks: int) -> None:
    """Run a job, so that the group's topics are not empty."""
    from airflow_provider.kafka.clock import wall_ms
    from airflow_provider.state.records import JobDefinition, PlanRecord, TaskKind, TaskState, TaskStatus
    from airflow_provider.values.model import Epoch, TaskId, WorkerId

    job = JobDefinition(name="ingest", entry_point="jobs:Ingest", max_tasks=tasks, submitted_at_ms=wall_ms())
    await topics.submit(job)
    configs = tuple({"table": f"t{index}"} for index in range(tasks))
    plan = PlanRecord.of(job, configs, planned_by=WorkerId("earlier"), at_ms=wall_ms())
    await topics.publish_plan(plan)
    done = [
        TaskStatus(
            task=TaskId(job.name, index),
            state=TaskState.FINISHED,
            epoch=Epoch(0),
            worker=WorkerId("earlier"),
            run_key=job.run_key,
            kind=TaskKind.BATCH,
            fingerprint=fingerprint,
            attempt=1,
            started_at_ms=wall_ms(),
            finished_at_ms=wall_ms(),
        )
        for index, fingerprint in enumerate(plan.fingerprints)
    ]
    await asyncio.gather(*(topics.publish_task(status) for status in done))


async def measure(
    groups: list[str], members: int, *, tasks: int, seconds: float, at_once: int, profile: str
) -> dict[str, Any]:
    from airflow_provider.group.live.shared import shared_topics
    from airflow_provider.hooks.spark_group import SparkGroupHook
    from airflow_provider.kafka.topics.rights import WORKER

    base_mb = rss_mb()
    settings = await SparkGroupHook("kafka_default").aget_settings()
    async with AsyncExitStack() as stack:
        for group in groups:
            topics = await stack.enter_async_context(shared_topics(settings, group, WORKER))
            await _finished_work(topics, tasks)
    triggerer = Triggerer()
    async with gauged() as joining:
        with Profiled(profile and f"{profile}-join"):
            began = time.monotonic()
            together = max(1, at_once // members)
            for first in range(0, len(groups), together):
                for number in range(members):
                    for group in groups[first : first + together]:
                        triggerer.take(group, f"{group}.worker_{number}")
                        if len(triggerer.held) % _IN_A_TURN == 0:
                            await asyncio.sleep(0)  # a triggerer's loop has a turn for each trigger
                await _until(triggerer.settled, triggerer, quiet_s=0)
            settled_s = time.monotonic() - began + await _until(triggerer.settled, triggerer)
            print(f"settled after {settled_s:.1f} s", file=sys.stderr, flush=True)
    await asyncio.sleep(_QUIET_S)
    before = triggerer.sessions()
    async with gauged() as steady:
        with Profiled(profile and f"{profile}-steady"):
            await asyncio.sleep(seconds)
    after = triggerer.sessions()
    figures = {
        "members": members * len(groups),
        "groups": len(groups),
        "base_mb": round(base_mb, 1),
        "threads": threads(),
        "joined_s": round(settled_s, 2),
        "joining": joining.to_json(),
        "steady": steady.to_json(),
        "sessions_lost": sum(one != other for one, other in zip(before, after, strict=True)),
    }
    async with gauged() as another:
        with Profiled(profile and f"{profile}-another"):
            triggerer.take(groups[0], f"{groups[0]}.worker_{members}")
            figures["another_s"] = round(await _until(triggerer.settled, triggerer), 2)
    figures["another"] = another.to_json()
    await triggerer.close()
    return figures


class Profiled:
    """Writes a profile of the block into a file, if one is named."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._profile = cProfile.Profile() if path else None

    def __enter__(self) -> None:
        if self._profile is not None:
            self._profile.enable()

    def __exit__(self, *_: object) -> None:
        if self._profile is not None:
            self._profile.disable()
            self._profile.dump_stats(self._path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.triggers", description=__doc__)
    parser.add_argument("bootstrap_servers")
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--members", type=int, default=50, help="of each group")
    parser.add_argument("--tasks", type=int, default=100, help="of each group, all finished")
    parser.add_argument("--at-once", type=int, default=1_000, help="join together; the next ones when they have")
    parser.add_argument("--seconds", type=float, default=60.0, help="to look at the steady state")
    parser.add_argument("--profile", default="", metavar="FILE", help="write profiles; the figures are worse for it")
    args = parser.parse_args()
    extra = {"bootstrap.servers": args.bootstrap_servers}
    os.environ["AIRFLOW__COOPERATIVE_SPARK__GC_FREEZE"] = "True"
    os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
    groups = [f"bench-{number}" for number in range(args.groups)]
    figures = asyncio.run(
        measure(
            groups,
            args.members,
            tasks=args.tasks,
            seconds=args.seconds,
            at_once=args.at_once,
            profile=args.profile,
        )
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
