"""Plays many histories in several processes: ``make simulate SEEDS=1000``.

``make simulate PLAN=wild SEED=123`` plays one; the plans ``declarative-...`` are for declarative groups. For a history
that fails, it prints the story, cuts it down to the actions that make it fail, and says how to play it again.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from simulation.plans import NAMES, cut_down, play

BATCH = 10


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has been played.

    :param least_steps: the fewest of any history
    :param events: the number of arrivals, timers, starts and stops
    :param most_rounds: the most that any group needed to come to rest after the faults stopped
    :param lost: leaders by the moment of the loss, or coordinators by the fault
    :param struck: faults of messages, by kind
    """

    histories: int = 0
    steps: int = 0
    least_steps: int = sys.maxsize
    rounds: int = 0
    events: int = 0
    most_rounds: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.histories += other.histories
        self.steps += other.steps
        self.least_steps = min(self.least_steps, other.least_steps)
        self.rounds += other.rounds
        self.events += other.events
        self.most_rounds = max(self.most_rounds, other.most_rounds)
        self.lost += other.lost
        self.struck += other.struck
        self.failed += other.failed

    def __str__(self) -> str:
        return (
            f"{self.histories} histories of {self.steps / max(1, self.histories):.0f} steps (at least"
            f" {self.least_steps}), {self.rounds} rebalances, {self.events} events; at rest after at most"
            f" {self.most_rounds} rounds of peace; lost: {_counted(self.lost)}; messages:"
            f" {_counted(self.struck) or 'all well'}"
        )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()))


def play_batch(plan: str, seeds: Iterable[int]) -> Tally:
    """Play these seeds, up to the first failure."""
    tally = Tally()
    gc.disable()  # worlds are full of reference cycles: collecting them once per batch is faster
    for seed in seeds:
        told = play(plan, seed)
        tally.add(
            Tally(
                histories=1,
                steps=told.steps,
                least_steps=told.steps,
                rounds=told.rounds,
                events=told.world.steps,
                most_rounds=told.rounds_of_peace,
                lost=told.lost,
                struck=told.struck,
                failed=[seed] if told.failure else [],
            )
        )
        if told.failure:
            break
    gc.enable()
    gc.collect()
    return tally


class Crew:
    """Worker processes that play histories."""

    def __init__(self, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_end_with_the_parent)

    def play(self, plan: str, seeds: range) -> Iterator[Tally]:
        """Yields the tally so far, until all is played."""
        tally = Tally()
        batches = [seeds[first : first + BATCH] for first in range(0, len(seeds), BATCH)]
        for part in self._pool.map(play_batch, [plan] * len(batches), batches):
            tally.add(part)
            yield tally

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _end_with_the_parent() -> None:
    """A process of a pool that waits for work does not notice that there will be none: others hold the pipe open."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def report(plan: str, seed: int) -> str:
    """Why a history fails, in full and cut down, and how to play it again."""
    told = play(plan, seed)
    if told.failure is None:
        return f"plan {plan}, seed {seed}: all well"
    short = cut_down(plan, seed, told)
    actions = "\n".join(f"  {action}" for action in short.actions)
    return (
        f"{told.failure}\n\nCut down from {len(told.actions)} to {len(short.actions)} actions:\n{actions}\n\n"
        f"{short.failure}\n\nPlay it again: make simulate PLAN={plan} SEED={seed}\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", choices=NAMES, help="only this plan")
    parser.add_argument("--seed", type=int, help="only this seed")
    parser.add_argument("--seeds", type=int, default=100, help="histories of each plan (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    plans = [chosen.plan] if chosen.plan else list(NAMES)
    if chosen.seed is not None:
        reports = [report(plan, chosen.seed) for plan in plans]
        print("\n".join(reports))
        return int(any("Play it again" in told for told in reports))
    crew = Crew(chosen.processes)
    try:
        return max(_play_plan(crew, plan, chosen.seeds) for plan in plans)
    finally:
        crew.close()


def _play_plan(crew: Crew, plan: str, seeds: int) -> int:
    """From a random first seed."""
    began, first = time.monotonic(), secrets.randbelow(10**12)
    tally = Tally()
    for tally in crew.play(plan, range(first, first + seeds)):
        print(f"\r{plan}: {tally.histories} of {seeds}", end="", flush=True, file=sys.stderr)
        if tally.failed:
            print(f"\n{report(plan, tally.failed[0])}")
            return 1
    print(f"\r{plan} from seed {first}: {tally}; {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
