"""Actions on the coordinators of a declarative group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulation.declarative.actions import Action
from simulation.declarative.shard_topics import Fault

from airflow_provider.group.declarative.coordinator.settings import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from airflow_provider.group.declarative.protocol.wire.messages.bodies import (
    AlterableConfig,
    ConfigOperation,
    ConnectGroupAlterConfigsRequest,
)

if TYPE_CHECKING:
    from simulation.declarative.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class KillCoordinator(Action):
    def apply(self, world: World) -> bool:
        owner = world.candidates.owner
        if owner is None or not owner.alive:
            return False
        world.lost["killed"] += 1
        world.candidates.kill(owner)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseCoordinator(Action):
    """It pauses, perhaps for so long that it becomes a zombie, and then goes on where it was."""

    ms: int

    def apply(self, world: World) -> bool:
        owner = world.candidates.owner
        if owner is None or not owner.alive or owner.asleep:
            return False
        world.lost["paused"] += 1
        world.candidates.sleep(owner, self.ms)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveShard(Action):
    """Another candidate is assigned the shard, in good order."""

    def apply(self, world: World) -> bool:
        moved = world.candidates.move()
        world.lost["moved"] += moved
        return moved


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoilTransactions(Action):
    """The next transactions fail in these ways."""

    faults: tuple[Fault, ...]

    def apply(self, world: World) -> bool:
        world.note(f"shard    ---- the next transactions: {', '.join(fault.value for fault in self.faults)}")
        world.topics.faults += self.faults
        world.struck.update(f"transactions {fault.value}" for fault in self.faults)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSlowly(Action):
    """Loading is slow from now on, or fast again."""

    def apply(self, world: World) -> bool:
        world.is_slow_to_load = not world.is_slow_to_load
        world.note(f"shard    ---- is slow to load: {world.is_slow_to_load}")
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Configure(Action):
    """Somebody sets the group's session timeout and heartbeat interval; None restores the default."""

    session_ms: int | None
    interval_ms: int | None

    def apply(self, world: World) -> bool:
        world.note(f"shard    ---- session {self.session_ms}, heartbeat interval {self.interval_ms}")
        wanted = {SESSION_TIMEOUT: self.session_ms, HEARTBEAT_INTERVAL: self.interval_ms}
        configs = tuple(
            AlterableConfig(name=name, config_operation=ConfigOperation.DELETE)
            if value is None
            else AlterableConfig(name=name, value=str(value))
            for name, value in wanted.items()
        )
        world.configure(ConnectGroupAlterConfigsRequest(group_id="g", configs=configs))
        return True
