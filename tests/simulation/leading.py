"""How a process of the simulation leads a round: the one place where the product's leader is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.rounds import Computed

from airflow_provider.group.leading import absences
from airflow_provider.membership.events import PerformAssignment
from airflow_provider.membership.leader import Call, LeaderAnswer, lead
from airflow_provider.membership.record import ClassicRecord
from airflow_provider.protocol.model import WorkerId

if TYPE_CHECKING:
    from simulation.process import Process


def lead_round(process: Process, command: PerformAssignment, last: ClassicRecord | None) -> LeaderAnswer:
    """Compute the round with what the process knows of the topics, and let the world know what was computed."""
    world = process.world
    configured, said = world.jobs.configured_at(process.config_offset), dict(world.status.workers)
    answer = lead(
        Call(
            generation=command.generation,
            protocol=command.protocol,
            leader=command.leader,
            last_completed=command.last_completed,
            members=command.members,
            configured=configured,
            config_offset=process.config_offset,
            last_record=last,
            policy=world.policy,
            now_ms=process.wall,
            reason=command.reason,
            spoken_epoch=world.status.spoken_epoch,
            jobs_end=world.jobs.offset,
            named=frozenset(WorkerId(member.instance_id or "") for member in command.members if world.named),
            absent={} if last is None else absences(command.members, last, said),
        )
    )
    key = (command.generation, command.leader)
    world.computed.pop(key, None)  # another coordinator may not have heard of that generation, and forms it anew
    if answer.record is not None:
        since = process.config_offset if last is None else last.config_offset
        throughout = world.jobs.configured_between(since, process.config_offset)
        removed = world.jobs.removed_between(since, process.config_offset)
        world.computed[key] = Computed(answer.record, configured, throughout, removed, last, said)
    return answer
