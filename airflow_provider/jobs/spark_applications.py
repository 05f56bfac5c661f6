"""A job without code: it submits Spark applications, as ``spark-submit`` does.

In client mode, the driver of an application is a child process of the worker. So its output is in the worker's log, and
it ends with its task: when this is stopped, when the lease is over, and when the worker's process ends, also if it is
killed. In cluster mode, it goes on without the worker, and the next one that has the task finds it.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider.jobs.application_config import (
    SparkApplicationsConfig,
    applications_of,
    arguments_of,
    is_detached,
    places_of,
    settings_of,
    what_is_wrong,
)
from airflow_provider.jobs.order import tasks_in_order
from airflow_provider.spark.job import FencedError, JobContext, SparkJob, TaskContext
from airflow_provider.spark.job.allowed_applications import AllowedApplications, ApplicationNotAllowedError
from airflow_provider.spark.submit import driver_handle
from airflow_provider.spark.submit.application import Application, run_application, settings_known
from airflow_provider.spark.submit.detached import Cluster, Driver, DriverState, TaggedDriver
from airflow_provider.spark.submit.driver_handle import DriverHandle
from airflow_provider.spark.submit.kubernetes import MASTER, kubernetes_here
from airflow_provider.spark.submit.output import ApplicationError, Output
from airflow_provider.spark.submit.yarn import yarn_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


class NotOnThisWorkerError(Exception):
    """A file of an application is not there. Another worker may have it."""

    def __init__(self, field: str, place: str) -> None:
        super().__init__(f"{field}: this worker has no {place}")


class SparkApplications(SparkJob):
    """Submits Spark applications: Python files and jars, with arguments, settings, files and packages. Each is a task;
    those of which one is to run after another are one task together.

    The config: ``application`` and what ``spark-submit`` has options for, or several ``applications``. A worker submits
    only what its ``allowed_applications`` allow.

    A task runs its applications one after the other, each to its end. With ``deploy_mode: client`` the driver is a
    child process of the worker; an exit code other than 0 is a failure. With ``cluster`` it runs on YARN or Kubernetes,
    is submitted once, and goes on if the worker ends; the next one adopts it, and it is killed if the task is not to go
    on. When nothing but a driver on a cluster is left, the worker needs no process for the task. A task's result has
    ``applications`` (their names) and ``seconds``. It may run again, as all tasks, and begins with its first
    application. So submit what may run twice.
    """

    config_schema = SparkApplicationsConfig
    needs_session = False

    def plan(self, job: JobContext) -> list[dict[str, Any]]:
        applications = applications_of(job.name, job.config)
        before = {name: each.get("after", ()) for name, each in applications.items()}
        return [
            {"name": ", ".join(together), "applications": [applications[name] for name in together]}
            for together in tasks_in_order(job.name, "applications", before)
        ]

    def run(self, spark: SparkSession | None, task: TaskContext) -> Any:  # noqa: ARG002 - it has none
        begun, begun_ms = time.monotonic(), round(time.time() * 1000)
        applications = task.config["applications"]
        for each in applications:  # all, before the first one is submitted
            check_allowed(each, task.applications)
            _check_there(each)
        names = [each["name"] for each in applications]
        for each in applications:
            task.fence()
            application = _application(each, task.applications.time_zone)
            if not is_detached(each):
                _run_here(each, application, task)
                continue
            cluster = cluster_of(application)
            leaves = task.applications.detach and each is applications[-1] and cluster.name != ""
            driver = _run_on_cluster(each, application, cluster, task, leaves=leaves)
            if driver.state is DriverState.RUNS:
                return DriverHandle(
                    cluster=cluster.name,
                    tag=tag_of(each, task),
                    since_ms=min(begun_ms, driver.submitted_ms),  # if it is adopted, it began before this process
                    result={"applications": names},
                )
        return {"applications": names, "seconds": round(time.monotonic() - begun, 3)}


def check_allowed(config: Mapping[str, Any], allowed: AllowedApplications) -> None:
    """:raises ApplicationNotAllowedError: naming the field that a worker does not allow"""
    if wrong := what_is_wrong(config):
        raise ApplicationNotAllowedError(
            config.get("name") or "an application", "what can't be submitted", f"it {wrong}"
        )
    for field, place in places_of(config):
        allowed.check_place(field, place)
    if main_class := config.get("main_class"):
        allowed.check_class("main_class", main_class)
    for coordinates in config.get("packages", ()):
        allowed.check_package("packages", coordinates)
    if master := config.get("master"):
        allowed.check_master("master", master)
    allowed.check_conf("conf", config.get("conf", {}))


def _check_there(config: Mapping[str, Any]) -> None:
    for field, place in places_of(config):
        if place.startswith("/") and not Path(place).exists():
            raise NotOnThisWorkerError(field, place)


def tag_of(config: Mapping[str, Any], task: TaskContext) -> str:
    """The same for the same application of the same run, whoever has the task. Whoever watches it knows it by the
    folder of the task's checkpoints.
    """
    group, job, folder = task.checkpoint_location.split("/")[-3:]  # the root may differ among workers
    work = json.dumps([folder, task.run_key, task.fingerprint, config], sort_keys=True)
    return driver_handle.tag_of(f"/{group}/{job}/{task.index}", work)


def _application(config: Mapping[str, Any], time_zone: str) -> Application:
    return Application(
        file=config["application"],
        args=arguments_of(config),
        main_class=config.get("main_class", ""),
        settings=settings_of(config),
        properties_file=config.get("properties_file", ""),
        spark_home=config.get("spark_home", ""),
        time_zone=time_zone,
    )


def _run_here(config: Mapping[str, Any], application: Application, task: TaskContext) -> None:
    """:raises ApplicationError: if it fails"""
    code, output = _submit(config, application, task)
    if code:
        task.fence()  # it may have been ended for that reason
        raise ApplicationError(config["name"], code, output.last())


def _run_on_cluster(
    config: Mapping[str, Any], application: Application, cluster: Cluster, task: TaskContext, *, leaves: bool
) -> Driver:
    """:param leaves: whether to return when it runs, and not when it has succeeded
    :raises DriverError: if it fails
    """
    tag = tag_of(config, task)

    def submit() -> int:
        settings = {**application.settings, **cluster.settings(tag)}
        return _submit(config, replace(application, settings=settings), task)[0]

    tagged = TaggedDriver(cluster, tag, submit, task.fence, task.wait)
    try:
        driver = tagged.begin()
        if not leaves or driver.state is not DriverState.RUNS:
            return tagged.follow(driver)
        task.fence()
        return driver
    except FencedError:
        if task.stopping and not task.moves:
            tagged.end()
        raise


def cluster_of(application: Application) -> Cluster:
    """That of its master, which is allowed by now."""
    master = application.settings["spark.master"]
    if master.startswith(MASTER):
        return kubernetes_here(master, settings_known(application), os.environ)
    return yarn_here(os.environ)


def _submit(config: Mapping[str, Any], application: Application, task: TaskContext) -> tuple[int, Output]:
    name = config["name"]
    log.info("Task %s:%d submits %s: %s", task.job, task.index, name, application.file)
    output = Output(f"{task.job}:{task.index} {name}")
    try:
        code = run_application(application, hear=output.hear, check=task.fence, lease_left_s=lambda: task.lease_left_s)
    finally:
        output.say_what_was_left_out()
    return code, output
