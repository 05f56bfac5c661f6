"""The values that go with a membership from a task's process to the triggerer and back: JSON with a version, no
secrets.

Triggers that an older release has stored rely on the keys: new ones may be added, with a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from airflow_provider.assignment.learners.model import Limits
from airflow_provider.assignment.policy import Deferred, Policy
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.group.membership import GroupProtocol
from airflow_provider.integration.airflow_metadata.storable import storable
from airflow_provider.integration.memberships.group_protocols import Coordinators, GroupProtocolName, group_protocol
from airflow_provider.integration.operator_parameters.parameters import spelled_as_name
from airflow_provider.spark.connect.server import NO_OTHERS, AllowedServers, is_connect
from airflow_provider.state.records import TaskState, WorkerPhase
from airflow_provider.state.rounds.policies import policy_from_json, policy_to_json
from airflow_provider.state.views.status_view import StatusSnapshot
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import ConnectProtocol, WorkerId
from airflow_provider.values.saved import SAVED_VERSION, check_saved, reading_saved
from airflow_provider.worker.endings.ending import Ending
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.settings import Until, WorkerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSpec:
    """How a worker's detached tasks are watched while its process is away.

    :param server: the URL of its Spark Connect server; empty: it has none
    :param conn_id: the connection for that; empty: none is needed; None: each query's handle says it
    :param progress_s: the least time between two progress reports of a task, in seconds
    :param max_spark_deaths: a task may fail when Spark or its process has ended this often while it ran
    :param allowed: other servers that records may name
    :param masters: masters of Kubernetes that records may name
    """

    server: str
    progress_s: float
    max_spark_deaths: int
    conn_id: str | None = None
    allowed: AllowedServers = NO_OTHERS
    masters: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "server": self.server,
            "progress_s": self.progress_s,
            "max_spark_deaths": self.max_spark_deaths,
            "conn_id": self.conn_id,
            **({"allowed_servers": self.allowed.urls} if self.allowed.servers else {}),
            **({"allowed_masters": list(self.masters)} if self.masters else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WatchSpec:
        return cls(
            server=data["server"],
            progress_s=data["progress_s"],
            max_spark_deaths=data["max_spark_deaths"],
            conn_id=data.get("conn_id"),
            allowed=AllowedServers.of(data.get("allowed_servers", ())),
            masters=tuple(data.get("allowed_masters", ())),
        )


def watching(spec: WorkerSpec, equipment: Equipment, status: StatusSnapshot) -> WorkerSpec:
    """Add what a triggerer has to know to watch the worker's detached tasks, if it may have any. Without a server these
    are drivers on a cluster; if another worker's move here later, this one returns to a process first.

    :param status: what the group's records say when its process ends
    """
    has_server = is_connect(equipment.spark_master)
    if equipment.runner == "noop" or not (has_server or any(status.living())):
        return spec
    watches = WatchSpec(
        server=equipment.spark_master if has_server else "",
        progress_s=equipment.progress_s,
        max_spark_deaths=equipment.max_spark_deaths,
        conn_id=equipment.spark_conn_id,
        allowed=equipment.allowed_servers,
        masters=equipment.applications.kubernetes_masters,
    )
    return replace(spec, watches=watches)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """The settings of a worker, whichever process holds its membership. A trigger has it as its argument ``plan``.

    :param policy: how an imbalance is resolved while this one leads the group
    :param coordinators: who may coordinate a declarative group
    :param idle_timeout_ms: how long it waits while its group has nothing to run; None: without limit
    :param watches: how its detached tasks are watched without its process; None: it has none
    """

    member: MemberSettings
    slots: int
    until: Until
    policy: Policy
    idle_timeout_ms: int | None = None
    group_protocol: GroupProtocolName = GroupProtocolName.CLASSIC
    coordinators: Coordinators = Coordinators.MEMBERS
    watches: WatchSpec | None = None

    def settings(self, phase: WorkerPhase, returns_ms: int | None = None) -> WorkerSettings:
        """The settings in the form that the worker itself takes.

        :param phase: what the worker's record says while it is in the group
        :param returns_ms: in how many milliseconds at most it returns if its process ends; unknown in a triggerer,
            because Airflow gives its triggers to another one
        """
        return WorkerSettings(
            member=self.member,
            slots=self.slots,
            until=self.until,
            phase=phase,
            returns_ms=returns_ms,
            idle_timeout_ms=self.idle_timeout_ms,
        )

    def protocol(self, returns_ms: int | None = None) -> GroupProtocol:
        """The group protocol by which the worker joins.

        :param returns_ms: see :meth:`settings`
        """
        member = replace(self.member, slots=self.slots)
        return group_protocol(self.group_protocol, member, self.policy, self.coordinators, returns_ms)

    def to_json(self) -> dict[str, Any]:
        member = self.member
        return {
            "v": SAVED_VERSION,
            "group": member.group_id,
            "worker": member.worker,
            "url": member.url,
            "protocol": member.protocol.value,
            "learned": member.learned.value,
            "limits": asdict(member.limits),
            "session_timeout_ms": member.session_timeout_ms,
            "heartbeat_interval_ms": member.heartbeat_interval_ms,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "lease_margin_ms": member.lease_margin_ms,
            "max_delay_ms": self.policy.max_delay_ms,
            "policy": policy_to_json(self.policy),
            "slots": self.slots,
            "until": self.until.value,
            "idle_timeout_ms": self.idle_timeout_ms,
            "group_protocol": self.group_protocol.value,
            "coordinators": self.coordinators.value,
            **({"watches": self.watches.to_json()} if self.watches is not None else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorkerSpec:
        """The inverse of :meth:`to_json`.

        :raises ValueError: if a newer release made it
        """
        check_saved(data, "plan")
        with reading_saved("plan"):
            return cls(
                member=MemberSettings(
                    group_id=data["group"],
                    worker=WorkerId(data["worker"]),
                    url=data["url"],
                    protocol=ConnectProtocol(data["protocol"]),
                    learned=LearnedRule(data.get("learned", LearnedRule.WHEN_READY)),
                    limits=Limits(**_named_as_in(Limits, data["limits"])) if "limits" in data else Limits(),
                    session_timeout_ms=data["session_timeout_ms"],
                    heartbeat_interval_ms=data["heartbeat_interval_ms"],
                    fast_heartbeat_ms=min(50, data["heartbeat_interval_ms"]),
                    rebalance_timeout_ms=data["rebalance_timeout_ms"],
                    lease_margin_ms=data["lease_margin_ms"],
                ),
                slots=data["slots"],
                until=Until(data["until"]),
                policy=_policy_of(data),
                idle_timeout_ms=data.get("idle_timeout_ms"),
                group_protocol=GroupProtocolName(data.get("group_protocol", GroupProtocolName.CLASSIC)),
                coordinators=Coordinators(data.get("coordinators", Coordinators.MEMBERS)),
                watches=WatchSpec.from_json(data["watches"]) if data.get("watches") else None,
            )


def _policy_of(data: Mapping[str, Any]) -> Policy:
    """The policy. Releases with only one policy stored just its delay, which is still written for their triggerers."""
    return policy_from_json(data["policy"]) if "policy" in data else Deferred(max_delay_ms=data["max_delay_ms"])


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStory:
    """What a worker has experienced so far, in all processes of one try.

    :param began_ms: wall clock, milliseconds since 1970
    :param deferrals: how often its membership went to the triggerer
    :param first_epoch: the first epoch in which it took part; None: none yet
    :param stopped: how often a running task was stopped here, because it moved or the worker ended
    """

    began_ms: int
    deferrals: int = 0
    first_epoch: int | None = None
    last_epoch: int | None = None
    stopped: int = 0

    def deferred(self) -> WorkerStory:
        return replace(self, deferrals=self.deferrals + 1)

    def stopped_more(self, tasks: int) -> WorkerStory:
        return replace(self, stopped=self.stopped + tasks)

    def in_epochs(self, first: int | None, last: int) -> WorkerStory:
        """Add epochs that it has seen; ``first`` is None if there was none."""
        if first is None:
            return self
        return replace(self, first_epoch=self.first_epoch or first, last_epoch=max(last, self.last_epoch or 0))

    def to_json(self) -> dict[str, Any]:
        return {"v": SAVED_VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WorkerStory:
        """The inverse of :meth:`to_json`.

        :raises ValueError: if a newer release made it
        """
        check_saved(data, "story")
        with reading_saved("story"):
            return cls(**_named_as_in(cls, data))

    def summary(self, spec: WorkerSpec, ended: Ending, status: StatusSnapshot) -> dict[str, Any]:
        """The operator's return value.

        :param ended: how the worker ended
        :param status: the records of its tasks' ends
        """
        mine = sorted(
            (
                last
                for last in status.tasks.values()
                if last.worker == spec.member.worker
                and last.state.final
                and not last.task.is_planner
                and (last.finished_at_ms or 0) >= self.began_ms
            ),
            key=lambda last: last.task,
        )
        told = {
            "group": spec.member.group_id,
            "worker": spec.member.worker,
            "ended": ended.value,
            "finished": [list(last.task) for last in mine if last.state is TaskState.FINISHED],
            "failed": {
                str(last.task): last.error.message if last.error else ""
                for last in mine
                if last.state is TaskState.FAILED
            },
            "stopped": self.stopped,
            "first_epoch": self.first_epoch,
            "last_epoch": self.last_epoch,
            "deferrals": self.deferrals,
        }
        summary: dict[str, Any] = storable(told)
        return summary


def _named_as_in(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """What is named as the fields of a dataclass are."""
    return {each.name: data[each.name] for each in fields(kind)}


def default_worker_name(ti: Any) -> str:
    """A name that stays the same over retries, deferrals and runs of the DAG."""
    mapped = "" if ti.map_index is None or ti.map_index < 0 else f".{ti.map_index}"
    return spelled_as_name(f"{ti.dag_id}.{ti.task_id}{mapped}")
