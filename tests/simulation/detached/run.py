"""Plays many histories of detached streams, over several processes: ``make simulate-detached HISTORIES=10000``.

The first seed is random, or FIRST=n; the others follow it. The story of each history that breaks a rule is printed, and
the others are still played.
"""

from __future__ import annotations

import argparse
import multiprocessing
import secrets
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from simulation.detached.world import BrokenError, play

BATCH = 50


def play_batch(seeds: range) -> list[str]:
    """:returns: the stories of the histories that have broken a rule"""
    stories = []
    for seed in seeds:
        try:
            play(seed)
        except BrokenError as broken:
            stories.append(str(broken))
    return stories


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1_000)
    parser.add_argument("--first", type=int, default=secrets.randbelow(10**12), help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.histories)
    batches = [seeds[begin : begin + BATCH] for begin in range(0, len(seeds), BATCH)]
    began = time.monotonic()
    broken = played = 0
    with ProcessPoolExecutor(chosen.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        for batch, stories in zip(batches, pool.map(play_batch, batches), strict=True):
            played += len(batch)
            broken += len(stories)
            for story in stories:
                print(f"\n{story}")
            print(f"\r{played} of {len(seeds)} histories, {broken} broken", end="", flush=True, file=sys.stderr)
    print(f"\nfrom seed {seeds.start}: {played} histories, {broken} broken, in {time.monotonic() - began:.0f} s")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
