"""What learner tasks cost and save under each rule, compared with plain KIP-415, for tasks that warm up."""

from __future__ import annotations

from typing import Final

from simulation.designs.costs import (
    MAX_DELAY_MS,
    Cost,
    Design,
    History,
    Stage,
    compare,
    many_at_once,
    one_by_one,
    scale_down,
)

from airflow_provider.assignment.policy import Deferred
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import ConnectProtocol

WARM_MS: Final = 20_000
"""How long each task takes to warm up, before or after its start."""

_POLICY: Final = Deferred(max_delay_ms=MAX_DELAY_MS)

LEARNER_DESIGNS: Final = (
    Design(name="no learners", protocol=ConnectProtocol.SESSIONED, policy=_POLICY, warm_ms=WARM_MS),
    Design(
        name="at-rebalance",
        protocol=ConnectProtocol.EXTENSIBLE,
        policy=_POLICY,
        learned=LearnedRule.AT_REBALANCE,
        warm_ms=WARM_MS,
    ),
    Design(
        name="when-ready",
        protocol=ConnectProtocol.EXTENSIBLE,
        policy=_POLICY,
        learned=LearnedRule.WHEN_READY,
        warm_ms=WARM_MS,
    ),
)


def a_join(stage: Stage) -> None:
    stage.join("w5")


LEARNER_HISTORIES: Final = (
    History(name="a worker joins", happens=a_join),
    History(name="4 workers join, one by one", happens=one_by_one),
    History(name="8 workers join at once", happens=many_at_once),
    History(name="2 of 6 workers leave", happens=scale_down, workers=6),
)


def compare_learners(seeds: int) -> dict[tuple[str, str], Cost]:
    """The mean costs by the names of history and design."""
    return compare(seeds, LEARNER_HISTORIES, LEARNER_DESIGNS)
