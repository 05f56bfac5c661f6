"""What Airflow learns about the package, and whether all of it is there."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator, task
from airflow.sdk.bases.operatorlink import BaseOperatorLink
from airflow.triggers.base import BaseTrigger

from airflow_provider.cli.airflow_commands import get_commands
from airflow_provider.cli.main import COMMANDS
from airflow_provider.hooks.spark_connect import SparkConnectHook
from airflow_provider.hooks.spark_group import SparkGroupHook
from airflow_provider.operators.rebalance_spark_group import RebalanceSparkGroupOperator
from airflow_provider.operators.retry_spark_job import RetrySparkJobOperator
from airflow_provider.operators.spark_coordinator import SparkCoordinatorOperator
from airflow_provider.operators.spark_job import RemoveSparkJobOperator
from airflow_provider.operators.steering import SteerSparkJob
from airflow_provider.provider_info import get_provider_info

INFO = get_provider_info()


def named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def classes_of(kind: str) -> list[type]:
    modules = [import_module(module) for entry in INFO[kind] for module in entry["python-modules"]]
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]


def test_it_follows_airflows_schema() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)


def test_it_is_found_under_the_distributions_name() -> None:
    installed = distribution(INFO["package-name"])
    (entry,) = installed.entry_points.select(group="apache_airflow_provider")
    assert entry.load() is get_provider_info
    assert INFO["versions"] == [installed.version]


@pytest.mark.parametrize(
    ("kind", "base", "names"),
    [
        (
            "operators",
            BaseOperator,
            {
                "AlterSparkJobOperator",
                "PauseSparkJobOperator",
                "RebalanceSparkGroupOperator",
                "RestartSparkJobOperator",
                "ResumeSparkJobOperator",
                "StopSparkJobOperator",
                "SparkJobOperator",
                "RemoveSparkJobOperator",
                "RetrySparkJobOperator",
                "ScaleSparkGroupOperator",
                "SparkCoordinatorOperator",
                "SparkWorkerOperator",
            },
        ),
        ("sensors", BaseSensorOperator, {"AssignmentEpochSensor", "JobSensor"}),
        ("triggers", BaseTrigger, {"WorkerTrigger", "GroupTrigger", "GroupEventTrigger", "CoordinatorTrigger"}),
        ("hooks", BaseHook, {"SparkConnectHook", "SparkGroupHook"}),
    ],
)
def test_every_module_that_it_names_is_there(kind: str, base: type, names: set[str]) -> None:
    assert {cls.__name__ for cls in classes_of(kind) if issubclass(cls, base)} == names


def test_every_class_and_function_that_it_names_is_there() -> None:
    hooks: tuple[type[SparkGroupHook | SparkConnectHook], ...] = (SparkGroupHook, SparkConnectHook)
    for connection, hook in zip(INFO["connection-types"], hooks, strict=True):
        assert named(connection["hook-class-name"]) is hook
        assert connection["connection-type"] == hook.conn_type
        assert connection["hook-name"] == hook.hook_name
    (link,) = INFO["extra-links"]
    assert issubclass(named(link), BaseOperatorLink)
    (decorator,) = INFO["task-decorators"]
    assert named(decorator["class-name"]) is getattr(task, decorator["name"])
    (commands,) = INFO["cli"]
    assert named(commands) is get_commands


def test_its_plugin_is_registered_once_and_where_airflow_always_looks() -> None:
    """Airflow takes what this information names as plugins only if it does not discover providers lazily, which is its
    default; and if both name it, it warns.
    """
    entry = 'cooperative_spark = "airflow_provider.plugins.cooperative_spark:CooperativeSparkPlugin"'
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'[project.entry-points."airflow.plugins"]\n{entry}\n' in project
    assert "plugins" not in INFO


def test_the_connections_form_asks_for_librdkafkas_own_names() -> None:
    """They are stored in the extra under these names, as the apache-kafka provider's users write them there."""
    connection, _ = INFO["connection-types"]
    assert "bootstrap.servers" in connection["conn-fields"]
    assert connection["conn-fields"]["sasl.password"]["schema"]["format"] == "password"
    placeholder = json.loads(connection["ui-field-behaviour"]["placeholders"]["extra"])
    assert set(placeholder) <= set(connection["conn-fields"])


@pytest.mark.parametrize("operator", [*classes_of("operators"), *classes_of("sensors")], ids=lambda cls: cls.__name__)
def test_every_operator_that_looks_at_its_group_links_to_it(operator: type[BaseOperator]) -> None:
    (link,) = INFO["extra-links"]
    without = (
        RebalanceSparkGroupOperator,
        RemoveSparkJobOperator,
        RetrySparkJobOperator,
        SparkCoordinatorOperator,
        SteerSparkJob,
    )
    links = [] if issubclass(operator, without) else [named(link)]
    assert [type(each) for each in operator.operator_extra_links] == links


def test_every_subcommand_is_one_of_airflows_too() -> None:
    (group,) = get_commands()
    assert group.name == "cospark"
    assert [command.name for command in group.subcommands] == list(COMMANDS)


@pytest.mark.skipif(airflow.__version__ < "3.2", reason="Airflow 3.1 takes no commands from providers")
def test_airflow_passes_all_arguments_on(capsys: pytest.CaptureFixture[str]) -> None:
    from airflow.cli.cli_parser import get_parser

    args = get_parser().parse_args(["cospark", "decode", "--help"])
    with pytest.raises(SystemExit) as ended:
        args.func(args)
    assert ended.value.code == 0
    assert "one hex string per line" in capsys.readouterr().out
