"""Whether a round may revoke to balance, or waits because the one before did so too.

Without it, workers that join one after the other would make the same tasks stop again and again (KAFKA-12495).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_provider.membership.assignors.lost import Verdict
from airflow_provider.membership.assignors.model import Memory

_MULTIPLIER = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Whether to revoke now, the delay that runs after this round, and what to remember for the next."""

    revokes: bool = False
    delay_ms: int = 0
    deadline_ms: int = 0
    revoked_in_previous: bool = False
    successive_revocations: int = 0


def pace(verdict: Verdict, memory: Memory, *, wants_to_revoke: bool, now_ms: int, max_delay_ms: int) -> Pace:
    """Decide about the revocations that balance asks for (rule 6)."""
    successive = memory.successive_revocations
    if verdict.delay_ms:
        return Pace(delay_ms=verdict.delay_ms, deadline_ms=verdict.deadline_ms, successive_revocations=successive)
    revoked_just_now = memory.revoked_in_previous and not verdict.waited
    if not wants_to_revoke:
        return Pace(successive_revocations=0 if revoked_just_now else successive)
    if not revoked_just_now:
        return Pace(revokes=True, revoked_in_previous=True, successive_revocations=successive)
    delay_ms = backoff_ms(successive + 1, max_delay_ms)
    return Pace(
        revokes=delay_ms == 0,
        delay_ms=delay_ms,
        deadline_ms=now_ms + delay_ms if delay_ms else 0,
        revoked_in_previous=True,
        successive_revocations=successive + 1,
    )


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """The ``attempts``-th delay in a row: 1 ms x 40^n, at most the maximum delay.

    In floating point as Java's ``ExponentialBackoff`` does it, so that it comes out the same to the millisecond
    (with a maximum of 1000 ms it ends at 999).
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(attempts, math.log(max_delay_ms) / math.log(_MULTIPLIER))
    return min(int(math.pow(_MULTIPLIER, exponent)), max_delay_ms)
