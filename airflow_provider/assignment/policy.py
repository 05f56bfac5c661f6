"""How a group's leader resolves an imbalance: immediately, after a delay, or step by step.

These are the three designs of "Incremental Cooperative Rebalancing: Support and Policies". Each stops only what moves;
they differ in when. Only the leader's policy counts. On the wire its decisions are revocations and delays as in
KIP-415, so members need not know it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from reprlib import repr as short
from typing import Final

LONGEST_DELAY_MS: Final = 2**31 - 1
"""A delay is an int32 on the wire."""


class PolicyError(ValueError):
    """Settings that don't make a policy.

    :param setting: the wrong one, by its name in this module
    :param problem: what is wrong with it
    """

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting = setting
        self.problem = problem


class PolicyName(str, Enum):
    """The name of a policy, as users write it."""

    IMMEDIATE = "immediate"
    """Design I: any imbalance is resolved in the next round."""
    DEFERRED = "deferred"
    """Design II, KIP-415: lost work waits for its worker."""
    INCREMENTAL = "incremental"
    """Design III: as Design II, and balance comes in steps of a limited number of moves."""


def _check(setting: str, value: object, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LONGEST_DELAY_MS:
        raise PolicyError(setting, f"{short(value)} must be a whole number from {least} to {LONGEST_DELAY_MS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """Lost work waits; what is above a worker's share is revoked in one round.

    Without a delay this is exactly design I, so that has no class of its own: lost work is placed in the round that
    finds it lost, and with nothing to wait for, successive rounds may revoke.

    :param max_delay_ms: ``scheduled.rebalance.max.delay.ms``; 0: nothing waits
    """

    max_delay_ms: int = 300_000

    def __post_init__(self) -> None:
        _check("max_delay_ms", self.max_delay_ms, least=0)

    @property
    def name(self) -> PolicyName:
        return PolicyName.DEFERRED if self.max_delay_ms else PolicyName.IMMEDIATE


IMMEDIATE: Final = Deferred(max_delay_ms=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incremental:
    """Balance comes in steps, so that a scale-up can be paced; lost work waits as in :class:`Deferred`.

    Only what is taken from workers for balance is limited. Lost and new work is not counted, because a limit would only
    keep it from running (slots limit how much of it a worker starts).

    :param max_moves: so many tasks, planners included, are taken from workers in a round, over the whole group
    :param move_interval_ms: the time from the round that gives them to others to the next one that takes any
    :param max_delay_ms: ``scheduled.rebalance.max.delay.ms``; 0: lost work does not wait
    """

    max_moves: int
    move_interval_ms: int = 30_000
    max_delay_ms: int = 300_000

    def __post_init__(self) -> None:
        _check("max_moves", self.max_moves, least=1)
        _check("move_interval_ms", self.move_interval_ms, least=0)
        _check("max_delay_ms", self.max_delay_ms, least=0)

    @property
    def name(self) -> PolicyName:
        return PolicyName.INCREMENTAL


Policy = Deferred | Incremental
