"""The order of a new plan's tasks. A task is identified by its index. So a task with a checkpoint key keeps its index,
and continues undisturbed where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_provider.state.records import CHECKPOINT_KEY, JobError, PlanRecord


def in_known_order(plan: PlanRecord, known: PlanRecord | None) -> PlanRecord:
    """``plan`` with each known key at its previous index, if the plan has so many tasks. Tasks without a key are not
    moved: their index names their checkpoint.

    :param known: the job's last plan, of any run
    :raises JobError: if two tasks have the same key
    """
    indexes = _indexes_by_key(plan)
    before = {} if known is None else {key: i for i, config in enumerate(known.configs) if (key := _key_of(config))}
    free = set(indexes.values())
    kept = {key: before[key] for key in indexes if before.get(key) in free}
    moved = [key for key in indexes if key not in kept]
    placed = {**kept, **dict(zip(moved, sorted(free.difference(kept.values())), strict=True))}
    order = list(range(len(plan.configs)))
    for key, index in placed.items():
        order[index] = indexes[key]
    weights = tuple(plan.weights[i] for i in order) if plan.weights else ()
    return replace(plan, configs=tuple(plan.configs[i] for i in order), weights=weights)


def _indexes_by_key(plan: PlanRecord) -> dict[str, int]:
    indexes: dict[str, int] = {}
    for index, config in enumerate(plan.configs):
        key = _key_of(config)
        if key is None:
            continue
        if key in indexes:
            raise JobError(plan.job, "plan", f"gives the tasks {indexes[key]} and {index} the {CHECKPOINT_KEY} {key!r}")
        indexes[key] = index
    return indexes


def _key_of(config: Mapping[str, Any]) -> str | None:
    key = config.get(CHECKPOINT_KEY)
    return key if isinstance(key, str) else None
