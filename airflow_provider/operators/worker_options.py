"""Parameters of a worker that belong together, as one value. It is checked on the line of the DAG that makes it.

They are not templated, because Airflow finds other tasks' outputs only in a parameter itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from airflow_provider.assignment.learners.model import DEFAULT_LIMITS, Limits, LimitsError
from airflow_provider.assignment.policy import Policy, PolicyError, PolicyName
from airflow_provider.group.classic.member.settings import MemberSettings
from airflow_provider.integration.memberships.group_protocols import Coordinators
from airflow_provider.integration.operator_parameters.parameters import (
    TimeSpan,
    as_float,
    choice,
    milliseconds,
    whole_number,
)
from airflow_provider.state.rounds.policies import check_protocol, make_policy
from airflow_provider.values.group_protocol.learned_rule import LearnedRule
from airflow_provider.values.model import ConnectProtocol, WorkerId

_LEASE_MARGIN_MS: Final = 2_000
_REBALANCE_MS: Final = 60_000
_BY_NAME: Final = (PolicyName.DEFERRED.value, PolicyName.IMMEDIATE.value)

_FORMER: Final[Mapping[str, str]] = {
    "session_timeout": "membership=Membership(session_timeout=...)",
    "heartbeat_interval": "membership=Membership(heartbeat_interval=...)",
    "rebalance_timeout": "membership=Membership(rebalance_timeout=...)",
    "coordinators": "membership=Membership(coordinators=...)",
    "max_delay": "policy=Deferred(max_delay=...)",
    "max_moves": "policy=Incremental(max_moves=...)",
    "move_interval": "policy=Incremental(move_interval=...)",
    "learned": "learners=Learners(learned=...)",
    "max_learners": "learners=Learners(per_worker=...)",
    "max_group_learners": "learners=Learners(per_group=...)",
    "ready_from": "learners=Learners(ready_from=...)",
    "learner_timeout": "learners=Learners(timeout=...)",
}
"""Where a worker's parameters are now that it no longer has itself."""

V = TypeVar("V")


def refuse_former(parameters: Iterable[str]) -> None:
    """:raises ValueError: if a worker had one of these parameters once; it says what has it now"""
    for each in parameters:
        if each in _FORMER:
            raise ValueError(
                f"{each}: a worker has no such parameter any more, write {_FORMER[each]}; the value is imported from"
                " airflow_provider.operators.spark_worker"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """A policy: lost tasks wait for their worker, and tasks above a worker's share move in one round. The default.

    :param max_delay: how long lost tasks wait at most (Connect's ``scheduled.rebalance.max.delay.ms``); 0: not at all
    """

    max_delay: TimeSpan = timedelta(minutes=5)

    def __post_init__(self) -> None:
        self.made()

    def made(self) -> Policy:
        """:raises ValueError: naming the parameter that is wrong"""
        return _made(PolicyName.DEFERRED, max_delay_ms=milliseconds("max_delay", self.max_delay))


@dataclass(frozen=True, slots=True, kw_only=True)
class Incremental:
    """A policy: lost tasks wait for their worker, and tasks above a worker's share move in steps. It is for groups in
    which it does harm when many move together.

    :param max_moves: how many tasks a round takes from their workers at most
    :param move_interval: time from a round that moved tasks to the next one that does
    :param max_delay: how long lost tasks wait at most; 0: not at all
    """

    max_moves: int
    move_interval: TimeSpan = timedelta(seconds=30)
    max_delay: TimeSpan = timedelta(minutes=5)

    def __post_init__(self) -> None:
        self.made()

    def made(self) -> Policy:
        """:raises ValueError: naming the parameter that is wrong"""
        return _made(
            PolicyName.INCREMENTAL,
            max_moves=whole_number("max_moves", self.max_moves, least=1),
            move_interval_ms=milliseconds("move_interval", self.move_interval),
            max_delay_ms=milliseconds("max_delay", self.max_delay),
        )


def policy_of(given: object, protocol: ConnectProtocol) -> Policy:
    """The policy that the parameter ``policy`` says, by its name or by one of these values.

    :param protocol: the worker's
    :raises ValueError: for anything else, and for a policy that the protocol can't keep
    """
    if isinstance(given, (Deferred, Incremental)):
        policy = given.made()
    elif given == PolicyName.INCREMENTAL.value:
        raise ValueError("policy: 'incremental' needs a number of moves: give Incremental(max_moves=...)")
    elif isinstance(given, str) and given in _BY_NAME:
        policy = make_policy(PolicyName(given))
    else:
        raise ValueError(f"policy: {given!r} must be 'deferred', 'immediate', Deferred(...) or Incremental(...)")
    check_protocol(policy, protocol)
    return policy


def _made(name: PolicyName, **settings: int) -> Policy:
    try:
        return make_policy(name, **settings)
    except PolicyError as wrong:
        raise ValueError(f"{wrong.setting.removesuffix('_ms')}: {wrong.problem}") from wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Learners:
    """How tasks are learned before they move. The limits are the leader's, so give all workers the same.

    :param learned: when this worker stops a task that another one learns. ``when-ready``: when it hears that the other
        one is ready; ``at-rebalance``: at the start of every rebalance, and it may have to start it again
    :param per_worker: how many tasks a worker learns at a time
    :param per_group: the same for the whole group
    :param ready_from: a task may move here from this progress of its warm-up on (above 0, at most 1)
    :param timeout: a warm-up that takes longer is given up, and the task stays where it is, unless its worker leaves
    """

    learned: str = LearnedRule.WHEN_READY.value
    per_worker: int = DEFAULT_LIMITS.per_worker
    per_group: int = DEFAULT_LIMITS.per_group
    ready_from: float = DEFAULT_LIMITS.ready_from
    timeout: TimeSpan = timedelta(milliseconds=DEFAULT_LIMITS.longest_ms)

    def __post_init__(self) -> None:
        choice("learned", self.learned, LearnedRule)
        self.limits()

    def limits(self) -> Limits:
        """:raises ValueError: naming the parameter that is wrong"""
        if not isinstance(self.ready_from, (int, float)) or isinstance(self.ready_from, bool):
            raise ValueError(f"ready_from: {self.ready_from!r} must be a number above 0 and at most 1")
        try:
            return Limits(
                per_worker=whole_number("per_worker", self.per_worker),
                per_group=whole_number("per_group", self.per_group),
                ready_from=as_float(self.ready_from),
                longest_ms=milliseconds("timeout", self.timeout),
            )
        except LimitsError as wrong:
            raise ValueError(f"{'timeout' if wrong.limit == 'longest_ms' else wrong.limit}: {wrong.problem}") from wrong


def learners_of(given: object, protocol: ConnectProtocol) -> Learners:
    """What the parameter ``learners`` says.

    :param protocol: the worker's
    :raises ValueError: for anything else, and if the protocol learns nothing
    """
    if given is not None and protocol is not ConnectProtocol.EXTENSIBLE:
        raise ValueError(
            f"learners: nothing is learned with connect_protocol={protocol.value!r}, nor in a declarative group: leave"
            " out connect_protocol and group_protocol, or learners"
        )
    return _of_kind("learners", given, Learners)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """How a worker is a member of its group, by Kafka's names.

    :param session_timeout: the coordinator removes a worker that is silent for this long. It must be longer than the
        time from a trigger's event to the resumed task, and from a killed triggerer to the one that takes over
        (Airflow's ``triggerer_health_check_threshold`` and a few seconds)
    :param heartbeat_interval: time between heartbeats
    :param rebalance_timeout: how long the coordinator waits for workers to join a rebalance. It must be longer than
        stopping a task takes, and at least ``session_timeout``. By default 60 s, or ``session_timeout`` if that is
        longer
    :param coordinators: who coordinates declarative groups. ``members``: the processes that hold workers, also
        triggerers; ``dedicated``: only processes that do nothing else (``cospark coordinator``)
    """

    session_timeout: TimeSpan = timedelta(seconds=60)
    heartbeat_interval: TimeSpan = timedelta(seconds=3)
    rebalance_timeout: TimeSpan | None = None
    coordinators: str = Coordinators.MEMBERS.value

    def __post_init__(self) -> None:
        self.settings(group="group", worker="worker", url="", protocol=ConnectProtocol.SESSIONED, learners=Learners())
        choice("coordinators", self.coordinators, Coordinators)

    def settings(
        self, *, group: str, worker: str, url: str, protocol: ConnectProtocol, learners: Learners
    ) -> MemberSettings:
        """:raises ValueError: naming the parameter that is wrong, or that does not go together with another one"""
        session_ms = milliseconds("session_timeout", self.session_timeout, least_ms=1)
        heartbeat_ms = milliseconds("heartbeat_interval", self.heartbeat_interval, least_ms=1)
        rebalance_ms = (
            max(_REBALANCE_MS, session_ms)
            if self.rebalance_timeout is None
            else milliseconds("rebalance_timeout", self.rebalance_timeout, least_ms=1)
        )
        margin_ms = min(_LEASE_MARGIN_MS, session_ms // 4)
        if heartbeat_ms + margin_ms >= session_ms:
            raise ValueError(
                f"session_timeout: {self.session_timeout!r} must be longer than heartbeat_interval"
                f" ({self.heartbeat_interval!r}) and {margin_ms} ms for stopping tasks in time"
            )
        if rebalance_ms < session_ms:
            raise ValueError(
                f"rebalance_timeout: {self.rebalance_timeout!r} must be at least session_timeout"
                f" ({self.session_timeout!r}): a worker that hears nothing keeps its tasks for that long"
            )
        return MemberSettings(
            group_id=group,
            worker=WorkerId(worker),
            url=url,
            protocol=protocol,
            learned=LearnedRule(learners.learned),
            limits=learners.limits(),
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=heartbeat_ms,
            fast_heartbeat_ms=min(50, heartbeat_ms),
            rebalance_timeout_ms=rebalance_ms,
            lease_margin_ms=margin_ms,
        )


def membership_of(given: object) -> Membership:
    """What the parameter ``membership`` says.

    :raises ValueError: for anything else
    """
    return _of_kind("membership", given, Membership)


def _of_kind(parameter: str, given: object, kind: type[V]) -> V:
    """``given``, or the default if it is None."""
    if given is None:
        return kind()
    if not isinstance(given, kind):
        raise ValueError(f"{parameter}: {given!r} must be made by {kind.__name__}(...)")
    return given
