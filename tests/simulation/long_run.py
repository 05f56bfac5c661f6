"""Plays histories for hours, a batch at a time: ``make simulate-long HISTORIES=1000000``.

A file keeps what was played, and the next call goes on from there until there are this many histories in all. Each
commit has its own, random first seed. The seed of a history that fails is written down, and the run goes on; ``make
simulate PLAN=... SEED=...`` tells its story.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from simulation.declarative.histories import PLANS as DECLARATIVE
from simulation.plans import NAMES
from simulation.run import Crew, Tally

BATCH = 200


@dataclass(slots=True, kw_only=True)
class Played:
    """Histories of one plan, with one commit.

    :param first: the first seed; the others follow
    :param failed: the seeds that failed
    """

    commit: str
    plan: str
    first: int
    histories: int = 0
    failed: list[int] = field(default_factory=list)

    @property
    def next_seed(self) -> int:
        return self.first + self.histories

    def longest(self) -> int:
        """The longest run of histories without a failure."""
        marks = [self.first - 1, *sorted(self.failed), self.next_seed]
        return max(after - before - 1 for before, after in pairwise(marks))


class Book:
    """What was played, in a file that is always replaced as a whole."""

    def __init__(self, path: Path, commit: str) -> None:
        self._path = path
        self._commit = commit
        self.parts = [Played(**part) for part in json.loads(path.read_text())] if path.exists() else []

    @property
    def histories(self) -> int:
        return sum(part.histories for part in self.parts)

    def part(self, plan: str) -> Played:
        """The part with which to go on for a plan."""
        for part in self.parts:
            if (part.plan, part.commit) == (plan, self._commit):
                return part
        part = Played(commit=self._commit, plan=plan, first=secrets.randbelow(10**12))
        self.parts.append(part)
        return part

    def least_played(self) -> str:
        """The plan with the fewest histories, of the protocol with the fewest."""
        played = Counter(dict.fromkeys(NAMES, 0))
        for part in self.parts:
            played[part.plan] += part.histories
        protocols = [[plan for plan in NAMES if (plan in DECLARATIVE) is declarative] for declarative in (False, True)]
        protocol = min(protocols, key=lambda plans: sum(played[plan] for plan in plans))
        return min(protocol, key=played.__getitem__)

    def save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps([asdict(part) for part in self.parts], indent=1))
        new.replace(self._path)

    def report(self) -> str:
        """By plan: the number of histories, the longest run without a failure, and failures, the present commit's
        first.
        """
        lines = [f"{self.histories} histories in all"]
        for plan in NAMES:
            parts = [part for part in self.parts if part.plan == plan]
            failed = [f"{seed} ({part.commit[:9]})" for part in parts for seed in part.failed]
            lines.append(
                f"  {plan}: {sum(part.histories for part in parts)}, the longest run without a failure"
                f" {max((part.longest() for part in parts), default=0)}, failed: {', '.join(failed) or 'none'}"
            )
        return "\n".join(lines)


def play_on(book: Book, crew: Crew, histories: int) -> Iterator[tuple[Played, Tally]]:
    """Play batches until there are this many histories in all, spread evenly over the protocols and their plans."""
    while book.histories < histories:
        part = book.part(book.least_played())
        plan = part.plan
        end = min(part.next_seed + BATCH, part.next_seed + histories - book.histories)
        tally = Tally()
        while part.next_seed < end:
            for tally in crew.play(plan, range(part.next_seed, end)):
                if tally.failed:
                    break
            if tally.failed:
                part.failed.append(tally.failed[0])
                part.histories = tally.failed[0] + 1 - part.first
            else:
                part.histories = end - part.first
            book.save()
            yield part, tally


def commit() -> str:
    """The commit that is checked out; uncommitted changes don't count."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "no commit"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1_000_000, help="in all (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--file", type=Path, default=Path("build/simulation.json"))
    parser.add_argument("--report", action="store_true", help="only say what was played so far")
    chosen = parser.parse_args()
    book = Book(chosen.file, commit())
    if chosen.report:
        print(book.report())
        return 0
    crew = Crew(chosen.processes)
    began, before = time.monotonic(), book.histories
    try:
        for part, tally in play_on(book, crew, chosen.histories):
            pace = (book.histories - before) / (time.monotonic() - began)
            print(f"{book.histories} of {chosen.histories}, {pace:.0f} a second", flush=True)
            if tally.failed:
                print(f"  FAILED: make simulate PLAN={part.plan} SEED={tally.failed[0]}", flush=True)
    except KeyboardInterrupt:
        print("stopped; the next call goes on from here")
    finally:
        crew.close()
    print(book.report())
    return int(any(part.failed for part in book.parts))


if __name__ == "__main__":
    sys.exit(main())
