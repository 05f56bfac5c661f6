"""What can't get better: it is refused when the DAG is parsed, or fails the running task at once, without retries."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, TaskGroup, task
from airflow_values import context

from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.integration.airflow_api.airflow_names import AirflowFailException
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.operators.rebalance_spark_group import RebalanceSparkGroupOperator
from airflow_provider.operators.retry_spark_job import RetrySparkJobOperator
from airflow_provider.operators.scale_spark_group import ScaleSparkGroupOperator
from airflow_provider.operators.spark_coordinator import SparkCoordinatorOperator
from airflow_provider.operators.spark_job import RemoveSparkJobOperator, SparkJobOperator
from airflow_provider.operators.spark_worker import Learners, SparkWorkerOperator
from airflow_provider.operators.steer_spark_job import AlterSparkJobOperator, PauseSparkJobOperator
from airflow_provider.sensors.assignment_epoch import AssignmentEpochSensor
from airflow_provider.sensors.job import JobSensor

WORKER = {"task_id": "w", "group": "g", "allowed_entry_points": ["m"]}
JOB = {"task_id": "s", "group": "g", "entry_point": "m:J"}


@pytest.fixture
def dag() -> DAG:
    return DAG("d", schedule=None)


class TestMapped:
    """Airflow itself makes operators of mapped tasks only when they run."""

    @pytest.mark.parametrize(
        ("operator", "partial", "mapped", "parameter"),
        [
            (SparkWorkerOperator, {**WORKER, "policy": "defered"}, {"slots": [1, 1]}, "policy"),
            (SparkWorkerOperator, WORKER, {"policy": ["immediate", "defered"]}, "policy"),
            (SparkWorkerOperator, WORKER, {"learners": [None, 4]}, "learners"),
            (SparkWorkerOperator, WORKER, {"slots": ["2", 0]}, "slots"),
            (SparkWorkerOperator, WORKER, {"worker": ["a", "b", "not a name"]}, "worker"),
            (SparkJobOperator, {**JOB, "kind": "stream"}, {"job": ["a", "b"]}, "kind"),
            (SparkJobOperator, JOB, {"job": ["a", "no/name"]}, "job"),
            (SparkJobOperator, {**JOB, "job": "a"}, {"config": [{}, 7]}, "config"),
            (JobSensor, {"task_id": "j", "group": "g", "state": "done"}, {"job": ["a"]}, "state"),
            (AssignmentEpochSensor, {"task_id": "e", "group": "g"}, {"at_least": [1, 0]}, "at_least"),
            (ScaleSparkGroupOperator, {"task_id": "c", "group": "g"}, {"to": ["80%", "-1%"]}, "to"),
        ],
    )
    def test_a_wrong_value_is_refused_when_the_dag_is_parsed(
        self, dag: DAG, operator: type[BaseOperator], partial: dict[str, Any], mapped: dict[str, Any], parameter: str
    ) -> None:
        name = partial["task_id"]
        with dag, pytest.raises(ValueError, match=rf"^task '{name}': {parameter}: "):
            operator.partial(**partial).expand(**mapped)

    def test_each_of_a_list_of_parameters_is_checked(self, dag: DAG) -> None:
        with dag, pytest.raises(ValueError, match=r"^task 's': max_tasks: "):
            SparkJobOperator.partial(**JOB).expand_kwargs([{"job": "a"}, {"job": "b", "max_tasks": 0}])

    def test_right_values_make_one_mapped_task_and_nothing_else(self, dag: DAG) -> None:
        defaults: Any = {"group": "g"}
        with dag, TaskGroup("inner", default_args=defaults):
            mapped = SparkJobOperator.partial(task_id="s", entry_point="m:J").expand(job=["a", "b"])
        assert sorted(dag.task_dict) == [mapped.task_id] == ["inner.s"]

    def test_what_only_the_running_task_knows_is_left_to_it(self, dag: DAG) -> None:
        @task
        def names() -> list[str]:
            return ["a"]

        with dag:
            known_later = names()
            SparkWorkerOperator.partial(**WORKER).expand(worker=known_later)
            SparkWorkerOperator.partial(**{**WORKER, "task_id": "p"}, learners=Learners()).expand(
                connect_protocol=known_later
            )
            SparkJobOperator.partial(**JOB).expand_kwargs(known_later.map(lambda name: {"job": name}))

    def test_the_running_task_fails_for_good(self, dag: DAG) -> None:
        with dag:
            mapped = SparkWorkerOperator.partial(**WORKER).expand(slots=[1, 2])
        assert mapped.unmap({"slots": 2}).slots == 2  # type: ignore[attr-defined]
        with pytest.raises(AirflowFailException, match=r"^slots: 0 must be"):
            mapped.unmap({"slots": 0})


RUNNING = [
    (SparkWorkerOperator, {"allowed_entry_points": ["m"]}),
    (SparkJobOperator, {"job": "j", "entry_point": "m:J"}),
    (RemoveSparkJobOperator, {"job": "j"}),
    (RetrySparkJobOperator, {"job": "j"}),
    (PauseSparkJobOperator, {"job": "j"}),
    (AlterSparkJobOperator, {"job": "j"}),
    (ScaleSparkGroupOperator, {"workers": 1}),
    (RebalanceSparkGroupOperator, {}),
    (JobSensor, {"job": "j"}),
    (AssignmentEpochSensor, {"at_least": 1}),
]


@pytest.mark.parametrize(("operator", "parameters"), RUNNING)
class TestRunning:
    def test_a_template_that_renders_to_nonsense(self, operator: Any, parameters: dict[str, Any]) -> None:
        made = operator(task_id="t", group="{{ params.group }}", **parameters)
        made.group = "no name"  # as it is rendered
        with pytest.raises(AirflowFailException, match=r"^group: 'no name' must be"):
            made.execute(context())

    def test_a_connection_that_is_refused(
        self, operator: Any, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def get_settings(hook: SparkGroupHook) -> KafkaSettings:
            extra = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
            return KafkaSettings.from_extra(extra, conn_id=hook.kafka_conn_id)

        monkeypatch.setattr(SparkGroupHook, "get_settings", get_settings)
        with pytest.raises(AirflowFailException, match=r"^connection 'mine': sasl\.mechanism: OAUTHBEARER is not"):
            operator(task_id="t", group="g", kafka_conn_id="mine", **parameters).execute(context())


def test_a_coordinator_whose_connection_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_settings(_hook: SparkGroupHook) -> KafkaSettings:
        raise SettingsError("mine", "", "is not defined")

    monkeypatch.setattr(SparkGroupHook, "get_settings", get_settings)
    with pytest.raises(AirflowFailException, match=r"^connection 'mine': is not defined"):
        SparkCoordinatorOperator(task_id="t", kafka_conn_id="mine").execute(context())


def test_a_worker_that_is_resumed_with_what_can_not_be_read() -> None:
    operator = SparkWorkerOperator(task_id="w", group="g", allowed_entry_points=["m"])
    with pytest.raises(AirflowFailException, match=r"^a saved story of version 99"):
        operator.resume(context(), {"story": {"v": 99}})
