"""The values of a worker's parameters: checked where they are made, and no burden to Airflow."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization import serialized_objects

from airflow_provider.assignment import policy
from airflow_provider.assignment.learners.model import DEFAULT_LIMITS
from airflow_provider.integration.operator_parameters.parameters import TimeSpan
from airflow_provider.operators.spark_worker import Deferred, Incremental, Learners, Membership, SparkWorkerOperator
from airflow_provider.values.model import ConnectProtocol

MINUTE = timedelta(minutes=1)
THIRTY_DAYS = timedelta(days=30)
WORKER: dict[str, Any] = {"group": "g", "allowed_entry_points": ["m"]}


@pytest.mark.parametrize(
    ("make", "parameter"),
    [
        (lambda: Membership(session_timeout=0), "session_timeout"),
        (lambda: Membership(session_timeout=3, heartbeat_interval=3), "session_timeout"),
        (lambda: Membership(session_timeout=120, rebalance_timeout=60), "rebalance_timeout"),
        (lambda: Membership(rebalance_timeout="soon"), "rebalance_timeout"),  # type: ignore[arg-type]
        (lambda: Membership(heartbeat_interval=0), "heartbeat_interval"),
        (lambda: replace(Membership(), session_timeout=2), "session_timeout"),
        (lambda: Membership(coordinators="brokers"), "coordinators"),
        (lambda: Deferred(max_delay=-1), "max_delay"),
        (lambda: Deferred(max_delay=THIRTY_DAYS), "max_delay"),
        (lambda: Incremental(max_moves=0), "max_moves"),
        (lambda: Incremental(max_moves="many"), "max_moves"),  # type: ignore[arg-type]
        (lambda: Incremental(max_moves=5, move_interval=-1), "move_interval"),
        (lambda: Incremental(max_moves=5, move_interval=THIRTY_DAYS), "move_interval"),
        (lambda: Incremental(max_moves=5, max_delay=THIRTY_DAYS), "max_delay"),
        (lambda: Learners(learned="sometimes"), "learned"),
        (lambda: Learners(per_worker=0), "per_worker"),
        (lambda: Learners(per_group=0), "per_group"),
        (lambda: Learners(ready_from=0), "ready_from"),
        (lambda: Learners(ready_from="soon"), "ready_from"),  # type: ignore[arg-type]
        (lambda: Learners(timeout=0), "timeout"),
        (lambda: Learners(timeout=-1), "timeout"),
    ],
)
def test_what_is_wrong_is_refused_on_the_line_that_says_it(make: Callable[[], object], parameter: str) -> None:
    with pytest.raises(ValueError, match=f"^{parameter}: "):
        make()


@pytest.mark.parametrize("minute", [60, 60.0, MINUTE])
def test_times_are_timedeltas_or_seconds(minute: TimeSpan) -> None:
    given = Incremental(max_moves=50, move_interval=minute, max_delay=minute)
    assert given.made() == policy.Incremental(max_moves=50, move_interval_ms=60_000, max_delay_ms=60_000)
    assert Deferred(max_delay=minute).made() == policy.Deferred(max_delay_ms=60_000)
    assert Learners(timeout=minute).limits().longest_ms == 60_000


@pytest.mark.parametrize(
    "former",
    [
        "session_timeout",
        "heartbeat_interval",
        "rebalance_timeout",
        "coordinators",
        "max_delay",
        "max_moves",
        "move_interval",
        "learned",
        "max_learners",
        "max_group_learners",
        "ready_from",
        "learner_timeout",
    ],
)
@pytest.mark.parametrize("make", [SparkWorkerOperator, SparkWorkerOperator.partial])
def test_a_former_parameter_is_told_which_value_has_it(make: Callable[..., object], former: str) -> None:
    with pytest.raises(ValueError, match=f"^{former}: .* write ") as refused:
        make(task_id="worker", **WORKER, **{former: 1})
    told = re.search(r"(?P<parameter>\w+)=(?P<value>\w+)\((?P<setting>\w+)=", str(refused.value))
    assert told is not None
    values: dict[str, Any] = {kind.__name__: kind for kind in (Membership, Deferred, Incremental, Learners)}
    assert told["parameter"] in inspect.signature(SparkWorkerOperator).parameters
    assert told["setting"] in inspect.signature(values[told["value"]]).parameters


def test_who_sets_nothing_has_the_usual() -> None:
    assert Deferred().made() == policy.Deferred()
    assert Incremental(max_moves=5).made() == policy.Incremental(max_moves=5)
    assert Learners().limits() == DEFAULT_LIMITS


@pytest.mark.parametrize(("session_s", "rebalance_s"), [(30, 60), (90, 90)])
def test_a_rebalance_waits_for_as_long_as_a_session_unless_people_say_otherwise(
    session_s: int, rebalance_s: int
) -> None:
    settings = Membership(session_timeout=session_s).settings(
        group="g", worker="w", url="", protocol=ConnectProtocol.SESSIONED, learners=Learners()
    )
    assert settings.rebalance_timeout_ms == 1000 * rebalance_s


@pytest.mark.parametrize("wrong", ["eventual", Deferred, None])
def test_a_wrong_policy_is_told_which_there_are(wrong: Any) -> None:
    with DAG("d", schedule=None), pytest.raises(ValueError, match=r"^policy: .*, Deferred\(\.\.\.\) or Incremental\("):
        SparkWorkerOperator(task_id="one", **WORKER, policy=wrong)


def test_where_nothing_is_to_wait_that_is_the_policy_immediate() -> None:
    assert Deferred(max_delay=0).made() == policy.IMMEDIATE


def _stored(*, seconds: float) -> Any:
    """What Airflow stores of a DAG: the tasks, one of them mapped, and the defaults for all."""
    names = vars(serialized_objects)
    serialization: Any = names.get("DagSerialization") or names["SerializedDAG"]  # as before Airflow 3.2
    defaults: Any = {"policy": Incremental(max_moves=5, max_delay=seconds)}
    values: dict[str, Any] = {"membership": Membership(session_timeout=30), "retries": 3}
    with DAG("d", schedule=None, default_args=defaults) as dag:
        SparkWorkerOperator(task_id="one", **WORKER, **values)
        SparkWorkerOperator.partial(task_id="some", **WORKER, **values).expand(slots=[1, 2])
        SparkWorkerOperator.partial(task_id="each", **WORKER).expand(policy=["immediate", Deferred(max_delay=seconds)])
    return json.loads(json.dumps(serialization.to_dict(dag)))


def test_airflow_stores_a_dag_with_them_and_it_has_a_new_version_only_if_they_change() -> None:
    first, same, other = _stored(seconds=60), _stored(seconds=60), _stored(seconds=61)
    assert first == same
    assert first != other
    assert serialized_objects.LazyDeserializedDAG(data=first).dag_id == "d"


def test_the_values_of_mapped_tasks_reach_them() -> None:
    with DAG("d", schedule=None):
        mapped = SparkWorkerOperator.partial(task_id="each", **WORKER).expand(policy=["immediate", Deferred()])
    for given in ("immediate", Deferred()):
        assert mapped.unmap({"policy": given}).policy == given  # type: ignore[attr-defined]
