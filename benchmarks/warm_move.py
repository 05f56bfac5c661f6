"""A stream with state moves to a worker that joins, and to one that stays when the group gets smaller: how long does it
stand still, with learner tasks and without, compared with a stop and a start in place?

Two streams of running totals, on a real broker and a real Spark. A process that does not have their reference data
needs 20 s to load it. *Standing still* is from the last batch of one attempt to the first one of the next, by the times
in the sink, so it includes the usual time between two batches. The peer stops and starts a stream where it is, where
everything is loaded. A stream that was not learned waits for more than its reference data: for Spark's start, and for a
new JVM's first query. At the end each total of each batch is checked: nothing was lost or counted twice.

All workers share the cores of one machine. So starting Spark and warming up slows down the batches of other streams;
the longest time without any batch is measured, too.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.state.records import TaskKind

_TESTS: Final = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(_TESTS))

from fleet import Fleet, cospark  # noqa: E402
from warm_streams import Gap, Sink, written_by  # noqa: E402

_WARM_UP_S: Final = 20.0
_REPEATS: Final = 3
_STREAMS: Final = 2
_STEADY: Final = 10
"""After so many batches a stream has reached its normal pace."""

_LIMIT_S: Final = 600.0
_LOOK_S: Final = 0.3
_GOAL: Final = 1.2


@dataclass(slots=True, kw_only=True)
class Stood:
    """How long streams stood still, in seconds.

    :param restarted: when they were stopped and started in place
    :param joined: when they moved to a worker that had joined
    :param left: when they moved because the group got smaller
    :param slowest_as_joined: the longest time without a batch of any stream while a worker joined
    :param slowest_as_left: the same while the group got smaller
    :param otherwise: the median time between two batches of an attempt
    """

    restarted: list[float] = field(default_factory=list)
    joined: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)
    slowest_as_joined: list[float] = field(default_factory=list)
    slowest_as_left: list[float] = field(default_factory=list)
    otherwise: list[float] = field(default_factory=list)


class Streams:
    """The streams of one group, and its workers."""

    def __init__(self, group: Fleet, folder: Path) -> None:
        self.group = group
        self._folder = folder
        self._again = [0] * _STREAMS
        self._started = 0
        self.sinks = [Sink(folder, index) for index in range(_STREAMS)]
        self.stood = Stood()

    async def submit(self) -> None:
        config = {"folder": str(self._folder), "warm_up_s": _WARM_UP_S}
        await self.group.submit(
            "totals",
            tasks=_STREAMS,
            kind=TaskKind.STREAMING,
            entry_point="warm_streams:Totals",
            config=config,
            replan_interval_ms=1000,
        )

    def start_worker(self) -> str:
        self._started += 1
        name = f"w{self._started}"
        self.group.start(name)
        return name

    async def steady(self, workers: int) -> None:
        """Wait until so many workers have written batches for a while."""
        since = [len(sink.gaps()) for sink in self.sinks]

        def holds() -> bool:
            writers = set(written_by(self.sinks))
            return (
                0 not in writers
                and len(writers) == workers
                and all(
                    len(gaps := sink.gaps()) >= begin + _STEADY and not any(gap.restarted for gap in gaps[-_STEADY:])
                    for sink, begin in zip(self.sinks, since, strict=True)
                )
            )

        await until(holds, f"{workers} workers write all streams")

    async def start_again(self, index: int) -> None:
        """Stop and start a stream where it is."""
        began = time.time()
        self._again[index] += 1
        hidden = self._folder / ".again"
        hidden.write_text(json.dumps(self._again))
        hidden.rename(self._folder / "again")
        sink = self.sinks[index]
        await until(lambda: any(gap.restarted for gap in gaps_since(sink, began)), "it has started again")
        await self.steady(len(set(written_by(self.sinks))))
        stood = [gap.seconds for gap in gaps_since(sink, began) if gap.restarted and not gap.moved]
        self.stood.restarted += stood
        _tell("stopped and started in place", stood)

    async def join(self) -> str:
        """Let a worker join, and a stream move to it."""
        began = time.time()
        name = self.start_worker()
        await self.steady(2)
        gaps = self._gaps_since(began)
        stood = [gap.seconds for gap in gaps if gap.moved]
        self.stood.joined += stood
        self.stood.slowest_as_joined.append(max(gap.seconds for gap in gaps))
        _tell(f"{name} joined", stood)
        return name

    async def shrink(self) -> None:
        """Let half of the workers leave."""
        began = time.time()
        said = await cospark(
            self.group, "scale", self.group.group_id, "--to", "50%", "--wait", "--timeout", str(_LIMIT_S)
        )
        if said.status:
            raise RuntimeError(said.err)
        await self.steady(1)
        gaps = self._gaps_since(began)
        stood = [gap.seconds for gap in gaps if gap.moved]
        self.stood.left += stood
        self.stood.slowest_as_left.append(max(gap.seconds for gap in gaps))
        _tell("a worker left", stood)

    def _gaps_since(self, began: float) -> list[Gap]:
        return [gap for sink in self.sinks for gap in gaps_since(sink, began)]

    def check(self) -> int:
        self.stood.otherwise += [gap.seconds for gap in self._gaps_since(0) if not gap.restarted]
        return sum(sink.check() for sink in self.sinks)


def gaps_since(sink: Sink, began: float) -> list[Gap]:
    return [gap for gap in sink.gaps() if gap.at > began]


async def until(holds: Callable[[], bool], what: str) -> None:
    """:raises TimeoutError: if it does not happen in time"""
    deadline = time.monotonic() + _LIMIT_S
    while not await asyncio.to_thread(holds):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_LIMIT_S:.0f} s: {what}")
        await asyncio.sleep(_LOOK_S)


def run(folder: Path) -> dict[str, Any]:
    """Measure, print, and return the figures.

    :param folder: for the streams' files and the workers' logs
    """
    return asyncio.run(_run(folder / f"{time.time():.0f}"))


async def _run(folder: Path) -> dict[str, Any]:
    with LocalBroker() as broker:
        warm = await _measure(broker.bootstrap_servers, folder, "extensible", _learning)
        cold = await _measure(broker.bootstrap_servers, folder, "sessioned", _not_learning)
    return _report(warm, cold)


async def _learning(streams: Streams) -> None:
    for number in range(_REPEATS):
        await streams.start_again(number % _STREAMS)
        await streams.join()
        await streams.start_again(number % _STREAMS)
        await streams.shrink()


async def _not_learning(streams: Streams) -> None:
    await streams.join()


async def _measure(servers: str, folder: Path, protocol: str, do: Callable[[Streams], Any]) -> Stood:
    """Measure in a group of its own, in which one worker has both streams at first."""
    folder = folder / protocol
    folder.mkdir(parents=True)
    options = {
        "--connect-protocol": protocol,
        "--max-delay-ms": 0,
        "--slots": _STREAMS,
        "--allow": "warm_streams",
        "--checkpoint-root": folder / "checkpoints",
        "--spark-conf": f"spark.sql.shuffle.partitions={_STREAMS}",
    }
    flat = (str(part) for option in options.items() for part in option)
    async with Fleet(servers, f"streams-{protocol}", folder, *flat, modules=_TESTS.parent) as group:
        streams = Streams(group, folder)
        await streams.submit()
        streams.start_worker()
        await streams.steady(1)
        await do(streams)
        print(f"{protocol}: {streams.check()} batches, each with the totals that it must have", flush=True)
        return streams.stood


def _report(warm: Stood, cold: Stood) -> dict[str, Any]:
    peer = statistics.median(warm.restarted)
    print(f"a batch every {statistics.median(warm.otherwise):.2f} s, a warm-up of {_WARM_UP_S:.0f} s; medians")
    print(_line("stopped and started in place", warm.restarted))
    figures: dict[str, Any] = {"restarted_s": peer}
    for name, values, goal in (
        ("joins, learned before", warm.joined, f" (goal: {_GOAL})"),
        ("joins, not learned", cold.joined, f"; {statistics.median(cold.joined) - peer:.1f} s more"),
        ("the longest wait for any batch as it joins", warm.slowest_as_joined, ""),
        ("half of the workers leave", warm.left, f" (goal: {_GOAL})"),
        ("the longest wait for any batch meanwhile", warm.slowest_as_left, f" (goal: {max(warm.left) / peer:.2f})"),
    ):
        ratio = statistics.median(values) / peer
        print(f"{_line(name, values)}: {ratio:.2f}{goal}")
        figures[name] = {"seconds": values, "ratio": round(ratio, 3)}
    return {**figures, "restarted": warm.restarted}


def _tell(what: str, stood: Sequence[float]) -> None:
    print(f"  {what}: {', '.join(f'{seconds:.2f} s' for seconds in stood)}", flush=True)


def _line(name: str, values: Sequence[float]) -> str:
    return f"{name:42} {statistics.median(values):6.2f} s ({min(values):.2f} to {max(values):.2f}, {len(values)} times)"
