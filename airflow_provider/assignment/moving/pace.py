"""How many running tasks a round may stop for balance, and when the next round is due.

Without such limits, workers that join one after another would stop the same tasks again and again (KAFKA-12495).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from airflow_provider.assignment.balancing.balance import NO_LIMIT
from airflow_provider.assignment.lost import LostWork
from airflow_provider.assignment.model import Memory
from airflow_provider.assignment.policy import Deferred, Incremental, Policy

_MULTIPLIER = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many tasks may be stopped now, the delay after this round, and what to remember for the next one.

    :param allowance: how many running tasks may be stopped for balance
    """

    allowance: int = 0
    delay_ms: int = 0
    deadline_ms: int = 0
    revoked_in_previous: bool = False
    successive_revocations: int = 0
    next_moves_at_ms: int = 0


def pace(policy: Policy, lost_work: LostWork, memory: Memory, *, wants_to_revoke: bool, now_ms: int) -> Pace:
    """Decide about the revocations that balance requires (rule 6)."""
    next_moves_at_ms = _next_moves_at_ms(policy, memory, now_ms) if isinstance(policy, Incremental) else 0
    if lost_work.delay_ms:
        return Pace(
            delay_ms=lost_work.delay_ms,
            deadline_ms=lost_work.deadline_ms,
            successive_revocations=memory.successive_revocations,
            next_moves_at_ms=next_moves_at_ms,
        )
    if isinstance(policy, Deferred):
        return _all_or_delay(policy, lost_work, memory, wants_to_revoke=wants_to_revoke, now_ms=now_ms)
    if next_moves_at_ms or not wants_to_revoke:
        return Pace(delay_ms=next_moves_at_ms - now_ms if wants_to_revoke else 0, next_moves_at_ms=next_moves_at_ms)
    return Pace(allowance=policy.max_moves, revoked_in_previous=True)


def _all_or_delay(policy: Deferred, lost_work: LostWork, memory: Memory, *, wants_to_revoke: bool, now_ms: int) -> Pace:
    """Allow all, unless the round before revoked too; then only after a delay, which grows with each such round."""
    successive = memory.successive_revocations
    revoked_just_now = memory.revoked_in_previous and not lost_work.waited
    if not wants_to_revoke:
        return Pace(successive_revocations=0 if revoked_just_now else successive)
    if not revoked_just_now:
        return Pace(allowance=NO_LIMIT, revoked_in_previous=True, successive_revocations=successive)
    delay_ms = backoff_ms(successive + 1, policy.max_delay_ms)
    return Pace(
        allowance=0 if delay_ms else NO_LIMIT,
        delay_ms=delay_ms,
        deadline_ms=now_ms + delay_ms if delay_ms else 0,
        revoked_in_previous=True,
        successive_revocations=successive + 1,
    )


def _next_moves_at_ms(policy: Incremental, memory: Memory, now_ms: int) -> int:
    """When running tasks may be stopped again; 0: now.

    The interval begins with the round that gives the last moved tasks to others. It takes the place of the growing
    delay: workers that join meanwhile wait for its end. The memory has it apart from the deadline, because lost work
    does not wait for it. It is never longer than the policy says, so that a leader whose clock is behind doesn't extend
    the interval that another leader began.
    """
    latest_ms = now_ms + policy.move_interval_ms
    at_ms = latest_ms if memory.revoked_in_previous else min(memory.next_moves_at_ms, latest_ms)
    return at_ms if at_ms > now_ms else 0


def backoff_ms(attempts: int, max_delay_ms: int) -> int:
    """The ``attempts``-th delay in succession: 1 ms x 40^n, at most the maximum delay.

    Computed in floating point as in Java's ``ExponentialBackoff``, to be equal to the millisecond (a maximum of 1000 ms
    gives 999).
    """
    if max_delay_ms <= 1:
        return max_delay_ms
    exponent = min(attempts, math.log(max_delay_ms) / math.log(_MULTIPLIER))
    return min(int(math.pow(_MULTIPLIER, exponent)), max_delay_ms)
