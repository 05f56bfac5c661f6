"""Records of a status topic from which others can tell that their group has probably begun to rebalance, or soon will.

Each says something else in the first place: that a worker starts, or has left. Workers write them anyway, at about the
time of the request that makes the coordinator rebalance.
"""

from __future__ import annotations

from typing import Final

from airflow_provider.state.records import WorkerPhase, WorkerStatus

_BEGINS_A_ROUND: Final = (WorkerPhase.JOINING, WorkerPhase.LEFT)


def worker_hints(known: WorkerStatus | None, new: WorkerStatus) -> bool:
    """Whether a worker says for the first time that it joins or has left."""
    if new.state not in _BEGINS_A_ROUND:
        return False
    return known is None or (known.state, known.process) != (new.state, new.process)
