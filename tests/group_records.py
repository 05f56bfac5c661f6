"""Made-up records of completed rounds: a test passes what it is about; the rest is a quiet group led by w1."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.assignment.model import Memory
from airflow_provider.state.rounds.classic import ClassicRecord
from airflow_provider.values.model import ConfigOffset, Epoch, GenerationId, MemberId, SubProtocol, Tasks, WorkerId

_NOBODY: Final[Mapping[WorkerId, Tasks]] = MappingProxyType({})


def record_of(assignment: Mapping[WorkerId, Tasks] = _NOBODY, *, epoch: int = 5, **fields: Any) -> ClassicRecord:
    """The record of a round in which nothing was revoked or moved and nothing waits.

    :param epoch: also the generation
    :param fields: of :class:`ClassicRecord`, which replace the made-up ones
    """
    made_up: dict[str, Any] = {
        "generation": GenerationId(epoch),
        "leader": WorkerId("w1"),
        "leader_member": MemberId("m1"),
        "protocol": SubProtocol.SESSIONED,
        "config_offset": ConfigOffset(0),
        "members": {worker: MemberId(worker) for worker in assignment},
        "revoked": {},
        "moves": (),
        "delay_ms": 0,
        "reason": "",
        "at_ms": 0,
        "memory": Memory(),
    }
    return ClassicRecord(epoch=Epoch(epoch), assignment=assignment, **{**made_up, **fields})
