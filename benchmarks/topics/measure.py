"""Measures one side after the other, on one broker: ``python -m benchmarks.topics.measure FOLDER FIGURES.json``."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from airflow_provider.servers.local_broker import LocalBroker
from benchmarks.topics.arrived import Arrived, lag, pauses, rows_at, until_rows
from benchmarks.topics.figures import Figures, Kill, Lags, table
from benchmarks.topics.processes import cpu_s, memory_mb, started
from benchmarks.topics.produced import Rows
from benchmarks.topics.sides import DetachedGroup, Group, Script, Side

_TOPICS: Final = int(os.environ.get("TOPICS", "100"))
_SIDES: Final = (*os.environ.get("FORM", "attached connect").split(), "plain")
_RATE: Final = float(os.environ.get("RATE", "5"))
_BACKLOG: Final = int(os.environ.get("BACKLOG", "1000"))
_STEADY_S: Final = float(os.environ.get("STEADY_S", "180"))
_LIMIT_S: Final = float(os.environ.get("LIMIT_S", "1800"))
"""For each phase. What is not over then is reported as it is."""
_LOOK_S: Final = 0.5
_SOME: Final = 10
"""More slots than topics: for the planner and the new topic."""


class Trial:
    """What becomes of the rows on one side."""

    def __init__(self, side: Side, rows: Rows) -> None:
        self._side = side
        self._rows = rows
        self._topics = [side.topic(number) for number in range(_TOPICS)]
        self._arrived = Arrived(side.checkpoints)
        self._lags = Lags()
        self.found = Figures(side=side.name, topics=_TOPICS, new_topic=side.new_topic)

    async def run(self) -> None:
        self._rows.make(self._topics, rows=_BACKLOG)
        try:
            await self._start()
            await self._steady()
            for what in self._side.kills:
                await self._kill(what)
            await self._new_topic()
            await self._catch_up()
        finally:
            await self._side.end()
        await self._read()

    async def _start(self) -> None:
        began = time.time()
        self._rows.go_on(self._topics)
        await self._side.start()
        await self._until(lambda: self._all_have(self._topics, _BACKLOG), "all rows of the beginning are in tables")
        batches = self._arrived.batches.values()
        self.found.started_s = round(max(each[0].at for each in batches) - began, 1)
        self.found.backlog_s = round(max(until_rows(each, _BACKLOG) or time.time() for each in batches) - began, 1)
        self.found.backlog_rows_per_s = round(_BACKLOG * _TOPICS / self.found.backlog_s, 1)
        self._tell("all rows of the beginning are in tables")

    async def _steady(self) -> None:
        began, cpu = time.time(), cpu_s(self._side.pids())
        self._lags = Lags()
        while time.time() < began + _STEADY_S:
            await self._look()
        ended = time.time()
        self.found.cores = round((cpu_s(self._side.pids()) - cpu) / (ended - began), 2)
        self.found.memory_mb = round(memory_mb(self._side.pids()))
        batches = self._arrived.batches
        come = sum(rows_at(each, ended) - rows_at(each, began) for each in batches.values())
        self.found.steady_rows_per_s = round(come / (ended - began), 1)
        self.found.pause_s = round(max(pauses(batches, began, ended).values()), 1)
        self.found.steady, self.found.load = self._lags, round(os.getloadavg()[0], 1)
        self._tell("the quiet time is over")

    async def _kill(self, what: str) -> None:
        began, there = time.time(), self._rows.counts
        self._lags = Lags()
        killing = asyncio.ensure_future(self._side.kill(what))
        await self._until(
            lambda: killing.done() and all(self._has(topic, rows) for topic, rows in there.items() if self._is(topic)),
            f"all rows from before the {what} was killed are in tables",
        )
        await killing
        ended = time.time()
        kill = Kill.of(what, ended - began, self._pauses(began, ended), self._lags)
        self.found.kills.append(kill)
        self._tell(f"the {what} was killed: at most {kill.longest_s:.0f} s without a batch")

    def _pauses(self, began: float, ended: float) -> dict[str, float]:
        """From the last batch before to the next one: the ordinary wait is part of it."""
        last = {topic: max(each.at for each in batches if each.at <= began) for topic, batches in self._old()}
        return {topic: pauses({topic: self._arrived.batches[topic]}, at, ended)[topic] for topic, at in last.items()}

    def _old(self) -> Iterable[tuple[str, list[Any]]]:
        return ((topic, each) for topic, each in self._arrived.batches.items() if topic in self._topics)

    async def _new_topic(self) -> None:
        new, began = self._side.topic(_TOPICS), time.time()
        self._lags = Lags()
        self._rows.make([new], rows=1)
        self._rows.go_on([new])
        changing = asyncio.ensure_future(self._side.has_new_topic())
        there = {topic: rows for topic, rows in self._rows.counts.items() if topic in self._topics}
        await self._until(
            lambda: (
                changing.done()
                and self._all_have([new], 1)
                and all(self._has(topic, rows) for topic, rows in there.items())
            ),
            "the first row of a new topic is in its table, and the others go on",
        )
        await changing
        first = self._arrived.batches.get(new)
        self.found.new_topic_s = round((first[0].at if first else time.time()) - began, 1)
        self.found.others_pause_s = round(max(self._pauses(began, time.time()).values()), 1)
        self._tell(f"a new topic: {self.found.new_topic_s:.0f} s until its first row was in its table")

    async def _catch_up(self) -> None:
        self._rows.stop()
        began, there = time.time(), self._rows.counts
        await self._until(
            lambda: all(self._has(topic, rows) for topic, rows in there.items() if self._is(topic)),
            "all rows are in tables",
        )
        self.found.caught_up_s = round(time.time() - began, 1)
        self.found.ends = self._side.ends

    async def _read(self) -> None:
        told = await _spark("count", self._side, self._side.name)
        for topic, rows in self._rows.counts.items():
            if self._is(topic):
                seen = told.get(topic.replace(".", "_"), {"rows": 0, "different": 0})
                self.found.rows += seen["rows"]
                self.found.missing += rows - seen["different"]
                self.found.doubled += seen["rows"] - seen["different"]
        self._tell(f"{self.found.rows:,} rows; {self.found.missing} missing, {self.found.doubled} doubled")

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _LIMIT_S
        while not holds():
            if time.monotonic() > deadline:
                self._tell(f"NOT within {_LIMIT_S:.0f} s: {what}")
                return
            await self._look()

    async def _look(self) -> None:
        await asyncio.sleep(_LOOK_S)
        await self._side.look_after()
        await asyncio.to_thread(self._arrived.look)
        produced = {topic: rows for topic, rows in self._rows.counts.items() if self._is(topic)}
        self._lags = self._lags.with_(lag(produced, self._arrived.counts), self._side.told())

    def _is(self, topic: str) -> bool:
        """Whether it is one of this side."""
        return topic.startswith(f"{self._side.name}.")

    def _has(self, topic: str, rows: int) -> bool:
        return self._arrived.counts.get(topic, 0) >= rows

    def _all_have(self, topics: Iterable[str], rows: int) -> bool:
        return all(self._has(topic, rows) for topic in topics)

    def _tell(self, what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {self._side.name}: {what}", flush=True)


async def _spark(what: str, side: Side, *namespaces: str) -> Any:
    """Have a small Spark program look after the tables."""
    output = side.folder / f"{what}.json"
    command = ("benchmarks.topics.tables", what, str(side.settings_file), str(output), *namespaces)
    log = side.folder / f"{what}.log"
    if status := await asyncio.to_thread(started([sys.executable, "-m", *command], log).wait):
        raise RuntimeError(f"{' '.join(command)} has ended with status {status}: see {log}")
    return json.loads(output.read_text())


def _side(name: str, servers: str, folder: Path) -> Side:
    kinds: dict[str, Callable[[], Side]] = {
        "attached": lambda: Group(name, servers, folder, _TOPICS + _SOME),
        "connect": lambda: DetachedGroup(name, servers, folder, _TOPICS + _SOME),
        "plain": lambda: Script(name, servers, folder),
    }
    if name not in kinds:
        raise SystemExit(f"FORM: {name!r} is neither attached nor connect")
    return kinds[name]()


async def _measure(folder: Path) -> list[Figures]:
    found = []
    with LocalBroker() as broker:
        sides = [_side(name, broker.bootstrap_servers, folder) for name in _SIDES]
        await _spark("make", sides[-1], *_SIDES)
        for side in sides:
            with Rows(broker.bootstrap_servers, _RATE) as rows:
                trial = Trial(side, rows)
                await trial.run()
                found.append(trial.found)
    return found


def main(folder: str, output: str) -> None:
    """Measure, print, and write the figures."""
    print(
        f"{_TOPICS} topics with {_BACKLOG:,} rows each, and {_RATE:g} more each second; {os.cpu_count()} cores",
        flush=True,
    )
    found = asyncio.run(_measure(Path(folder)))
    print(f"\n{table(found)}", flush=True)
    Path(output).write_text(json.dumps({each.side: asdict(each) for each in found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
