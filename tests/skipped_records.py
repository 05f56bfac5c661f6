"""Counts the unreadable records that a log reports; a batch of them has one line."""

from __future__ import annotations

import re


def skipped_records(log: str) -> int:
    together = [int(number) for number in re.findall(r"(\d+) records from offset \d+ to \d+ can't be read", log)]
    return sum(together) + log.count("can't be read and is skipped") - len(together)
