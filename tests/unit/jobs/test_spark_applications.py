"""The job that submits Spark applications: what it plans, what a worker refuses, and how its tasks end; with a stand-in
for ``spark-submit``.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from fake_spark_home import make_spark_home, write_application

from airflow_provider.jobs import spark_applications
from airflow_provider.jobs.application_config import settings_of
from airflow_provider.jobs.spark_applications import NotOnThisWorkerError, SparkApplications
from airflow_provider.spark.attempts.failures import is_retryable
from airflow_provider.spark.job import FencedError, JobContext, TaskContext
from airflow_provider.spark.job.allowed_applications import AllowedApplications, ApplicationNotAllowedError
from airflow_provider.spark.job.config_schema import ConfigError, check_config, json_schema_of
from airflow_provider.spark.job.loading import load_job
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.spark.submit.application import Application, NoSparkSubmitError
from airflow_provider.spark.submit.output import ApplicationError
from airflow_provider.ui.views.config_form import FieldKind, form_fields

APPS = "/opt/apps"


def planned(**config: object) -> list[dict[str, Any]]:
    job = load_job("airflow_provider.jobs.spark_applications:SparkApplications", ["airflow_provider.jobs"])
    return make_plan(job, JobContext(name="nightly", config=config, max_tasks=1))


# --- the config


def test_the_page_has_a_form_for_its_config() -> None:
    fields = form_fields(json_schema_of(SparkApplications()) or {})
    kinds = {field.name: field.kind for field in fields}
    assert [name for name, kind in kinds.items() if kind is FieldKind.TEXT] == [
        "application",
        "main_class",
        "properties_file",
        "master",
        "spark_home",
    ]
    assert kinds["applications"] is FieldKind.JSON
    assert all(field.about for field in fields)
    assert not any(field.required for field in fields)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"args": "--day"}, "args"),
        ({"conf": {"spark.executor.memory": ["4g"]}}, "conf"),
        ({"properties_file": "etl.properties"}, "properties_file"),
        ({"spark_home": "spark"}, "spark_home"),
        ({"class": "org.Main"}, "class"),
        ({"applications": [{"args": [None]}]}, r"applications\[0\]\.args"),
    ],
)
def test_another_config_is_refused_by_the_name_of_its_field(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        check_config("nightly", SparkApplications(), {"application": f"{APPS}/etl.py", **config})


# --- the plan


def test_one_application_is_one_task_that_needs_no_session() -> None:
    assert planned(application=f"{APPS}/etl.py", args=["--day", 7]) == [
        {
            "needs_session": False,
            "name": "etl",
            "applications": [{"application": f"{APPS}/etl.py", "args": ["--day", 7], "conf": {}, "name": "etl"}],
        }
    ]


def test_several_have_in_common_what_none_of_them_has_by_itself() -> None:
    first, second = planned(
        application=f"{APPS}/etl.jar",
        main_class="org.Main",
        conf={"spark.executor.memory": "4g", "spark.executor.cores": 2},
        applications=[
            {"name": "orders", "args": ["orders"]},
            {"name": "items", "args": ["items"], "conf": {"spark.executor.memory": "8g"}},
        ],
    )
    assert [task["name"] for task in (first, second)] == ["items", "orders"]
    (items,) = first["applications"]
    assert (items["application"], items["args"]) == (f"{APPS}/etl.jar", ["items"])
    assert items["conf"] == {"spark.executor.memory": "8g", "spark.executor.cores": 2}


def test_those_that_wait_for_each_other_are_one_task_in_order() -> None:
    tasks = planned(
        applications=[
            {"application": f"{APPS}/report.py", "after": ["orders"]},
            {"application": f"{APPS}/orders.py"},
            {"application": f"{APPS}/alone.py"},
        ]
    )
    assert [task["name"] for task in tasks] == ["alone", "orders, report"]
    assert [each["name"] for each in tasks[1]["applications"]] == ["orders", "report"]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "it has as its application ''"),
        ({"application": f"{APPS}/etl.sh"}, "neither a \\*.py nor a \\*.jar"),
        ({"application": "pyspark-shell"}, "neither a \\*.py nor a \\*.jar"),
        ({"application": f"{APPS}/etl.py", "main_class": "org.Main"}, "'org.Main', which is none of a jar"),
        ({"application": f"{APPS}/etl.jar", "main_class": "--help"}, "'--help', which is none of a jar"),
        ({"applications": [{"application": f"{APPS}/a.py"}, {}]}, r"applications\[1\] has as its application ''"),
        ({"applications": [{"application": f"{APPS}/a.py", "arg": []}]}, r"applications\[0\] has 'arg', which is no"),
        ({"application": f"{APPS}/a.py", "applications": [{}, {}]}, "two applications are called 'a'"),
        ({"applications": [{"application": f"{APPS}/a.py", "after": ["b"]}]}, "a is to run after 'b'"),
        ({"applications": [{"application": f"{APPS}/a.py", "name": "a\nERROR b"}]}, "has the name"),
        ({"application": f"{APPS}/a.py", "deploy_mode": "cluster", "master": "yarn", "args": ["`id`"]}, "a shell"),
        ({"application": f"{APPS}/a.py", "deploy_mode": "cluster", "master": "yarn", "args": ["{{(id)}}"]}, "a shell"),
        (
            {
                "application": f"{APPS}/a.py",
                "applications": [{"name": "x", "after": ["y"]}, {"name": "y", "after": ["x"]}],
            },
            "in a circle",
        ),
    ],
)
def test_a_plan_that_no_retry_mends_is_refused(config: dict[str, Any], why: str) -> None:
    with pytest.raises(PlanError, match=why) as refused:
        planned(**config)
    assert not is_retryable(refused.value)


def test_all_that_spark_has_a_setting_for_is_one() -> None:
    (task,) = planned(
        application=f"{APPS}/etl.py",
        conf={"spark.ui.enabled": False, "spark.executor.cores": 2},
        master="yarn",
        jars=["/a.jar", "/b.jar"],
        py_files=["/c.zip"],
        files=["/d.txt"],
        archives=["/e.tar.gz#e"],
        packages=["g:a:1"],
    )
    assert settings_of(task["applications"][0]) == {
        "spark.ui.enabled": "false",
        "spark.executor.cores": "2",
        "spark.app.name": "etl",
        "spark.submit.deployMode": "client",
        "spark.master": "yarn",
        "spark.jars": "/a.jar,/b.jar",
        "spark.submit.pyFiles": "/c.zip",
        "spark.files": "/d.txt",
        "spark.archives": "/e.tar.gz#e",
        "spark.jars.packages": "g:a:1",
    }


# --- a task


class Guard:
    """Lets the task be looked at so many times."""

    stopping = False

    def __init__(self, looks: float = float("inf")) -> None:
        self.left = looks

    def wait(self, timeout_s: float) -> bool:
        return False

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise FencedError("revoked")

    def check_lease(self) -> None: ...


class Worker:
    """A worker with applications in a folder, which it allows."""

    def __init__(self, folder: Path) -> None:
        self.apps = folder / "apps"
        self.home = str(make_spark_home(self.apps))
        self.allowed: tuple[str, ...] = (str(self.apps),)

    def has(self, name: str, program: str) -> str:
        return write_application(self.apps / name, program)

    def run(self, guard: Guard | None = None, **config: Any) -> dict[str, Any]:
        (task,) = planned(spark_home=self.home, **config)
        return self.run_task(task, guard)

    def run_task(self, task: dict[str, Any], guard: Guard | None = None) -> dict[str, Any]:
        context = TaskContext(
            job="nightly",
            index=0,
            config=task,
            epoch=1,
            checkpoint_location="",
            guard=guard or Guard(),
            applications=AllowedApplications(self.allowed, time_zone="Asia/Tokyo"),
        )
        result: dict[str, Any] = SparkApplications().run(None, context)
        return result


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path)


@pytest.mark.parametrize(
    "application",
    [
        {"name": "x", "application": "", "main_class": "org.apache.spark.deploy.SparkSubmit", "args": ["/x.py"]},
        {"name": "x", "application": "/opt/apps/x.jar", "main_class": "org.apache.spark.deploy.SparkSubmit"},
        {"name": "x", "application": "/opt/apps/data.csv#x.py"},
        {"name": "x", "application": "/opt/apps/x.py", "deploy_mode": "cluster"},
    ],
)
def test_a_task_that_no_plan_would_have_made_is_refused(worker: Worker, application: dict[str, Any]) -> None:
    """Whoever writes to the topic may give a planned job other tasks."""
    worker.allowed = ("/opt/apps",)
    with pytest.raises(ApplicationNotAllowedError) as refused:
        worker.run_task({"name": "x", "applications": [application]})
    assert not is_retryable(refused.value)


def test_applications_run_in_order_and_their_output_is_in_the_log(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first, second = worker.has("first.py", 'echo "one $1"'), worker.has("second.py", "echo two")
    result = worker.run(
        applications=[{"application": second, "after": ["first"]}, {"application": first, "args": ["day"]}]
    )
    assert result.pop("seconds") >= 0
    assert result == {"applications": ["first", "second"]}
    json.dumps(result)
    lines = [line for line in caplog.messages if " | " in line]
    assert lines == ["nightly:0 first | one day", "nightly:0 second | two"]


def test_applications_have_the_time_zone_of_the_worker_s_tasks(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    worker.run(application=worker.has("etl.py", 'cat "$PROPERTIES"'))
    assert "nightly:0 etl | spark.sql.session.timeZone=Asia/Tokyo" in caplog.messages


def test_an_exit_code_is_a_failure_with_the_last_lines_and_nothing_runs_after_it(worker: Worker) -> None:
    first, second = worker.has("first.py", "echo no such day; exit 3"), worker.has("second.py", "touch $SPARK_HOME/ran")
    with pytest.raises(
        ApplicationError, match=r"first has ended with exit code 3\. Its last lines:\nno such day$"
    ) as e:
        worker.run(applications=[{"application": first}, {"application": second, "after": ["first"]}])
    assert is_retryable(e.value)
    assert not Path(worker.home, "ran").exists()


def test_it_ends_when_the_task_may_not_go_on(worker: Worker) -> None:
    with pytest.raises(FencedError):
        worker.run(Guard(3), application=worker.has("etl.py", "sleep 3600"))


def test_one_that_was_ended_for_the_lease_has_not_failed(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(application: Application, *, hear: object, check: object, lease_left_s: object) -> int:
        return 137

    monkeypatch.setattr(spark_applications, "run_application", killed)
    with pytest.raises(FencedError):
        worker.run(Guard(1), application=worker.has("etl.py", "exit 0"))


def test_a_worker_submits_only_what_it_allows(worker: Worker) -> None:
    outside = write_application(worker.apps.parent / "other" / "etl.py", "exit 0")
    inside = worker.has("etl.py", "touch $SPARK_HOME/ran")
    for config, field in (
        ({"application": outside}, "application"),
        ({"application": inside, "py_files": [outside]}, "py_files"),
        ({"application": inside, "properties_file": outside}, "properties_file"),
        ({"application": inside, "packages": ["g:a:1"]}, "packages"),
        ({"application": inside, "master": "spark://other:7077"}, "master"),
        ({"application": inside, "conf": {"spark.plugins": "Evil"}}, "conf"),
    ):
        with pytest.raises(ApplicationNotAllowedError, match=f"^{field}: this worker does not allow"):
            worker.run(**config)
    worker.allowed = ()
    with pytest.raises(ApplicationNotAllowedError, match="allowed_applications"):
        worker.run(application=inside)
    assert not Path(worker.home, "ran").exists()


def test_a_file_that_another_worker_may_have_is_named(worker: Worker) -> None:
    inside = worker.has("etl.py", "exit 0")
    with pytest.raises(NotOnThisWorkerError, match=rf"^files: this worker has no {worker.apps}/lookup.csv") as missing:
        worker.run(application=inside, files=[f"{worker.apps}/lookup.csv#lookup"])
    assert is_retryable(missing.value)


def test_a_spark_home_that_is_none_is_named(worker: Worker) -> None:
    inside = worker.has("etl.py", "exit 0")
    worker.home = str(worker.apps)
    with pytest.raises(NoSparkSubmitError, match=r"^spark_home: "):
        worker.run(application=inside)
