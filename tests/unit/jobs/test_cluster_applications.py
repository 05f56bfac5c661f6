"""Applications whose driver runs on YARN: submitted once, whatever happens to workers; with stand-ins for YARN and for
``spark-submit``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_resource_manager import SUBMITS, FakeResourceManager, resource_manager
from fake_spark_home import make_spark_home, write_application
from watched_task import Guard

from airflow_provider.jobs.spark_applications import SparkApplications, tag_of
from airflow_provider.spark.job import FencedError, JobContext, TaskContext
from airflow_provider.spark.job.allowed_applications import AllowedApplications
from airflow_provider.spark.job.planning import PlanError, make_plan
from airflow_provider.spark.runners.watches import handle_for
from airflow_provider.spark.submit.detached import Driver, DriverError, TaggedDriver
from airflow_provider.spark.submit.driver_handle import DriverHandle
from airflow_provider.values.model import TaskId

APP = "application_1700000000000_0000"


class Group:
    """Workers that have one configuration of YARN, and an application."""

    def __init__(self, folder: Path, manager: FakeResourceManager) -> None:
        self.manager = manager
        self.apps = folder / "apps"
        self.config = {
            "application": write_application(self.apps / "etl.py", SUBMITS),
            "args": [str(manager.folder)],
            "spark_home": str(make_spark_home(self.apps)),
            "master": "yarn",
            "deploy_mode": "cluster",
        }

    def task(
        self,
        guard: Guard | None = None,
        *,
        root: str = "/tmp",
        run_key: str | None = "monday",
        fingerprint: str = "1a",
        detach: bool = False,
        **more: Any,
    ) -> TaskContext:
        context = JobContext(name="nightly", config={**self.config, **more}, max_tasks=1)
        (planned,) = make_plan(SparkApplications(), context)
        return TaskContext(
            job="nightly",
            index=0,
            config=planned,
            epoch=1,
            run_key=run_key,
            fingerprint=fingerprint,
            checkpoint_location=f"{root}/group/nightly/0",
            guard=guard or Guard(),
            applications=AllowedApplications((str(self.apps), "yarn"), detach=detach),
        )

    def run(self, guard: Guard, **changes: Any) -> dict[str, Any]:
        """By any of the workers, which stays with it."""
        result = SparkApplications().run(None, self.task(guard, **changes))
        assert isinstance(result, dict)
        return result

    def submit(self, guard: Guard | None = None, **changes: Any) -> DriverHandle:
        """By any of the workers, which leaves the driver to whoever watches it."""
        handle = SparkApplications().run(None, self.task(guard, detach=True, **changes))
        assert isinstance(handle, DriverHandle)
        return handle

    def succeeds(self) -> None:
        self.manager.ends[APP] = ("FINISHED", "SUCCEEDED")


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    with resource_manager(tmp_path / "submitted") as manager:
        address = f"<name>yarn.resourcemanager.webapp.address</name><value>{manager.address}</value>"
        (tmp_path / "yarn-site.xml").write_text(f"<configuration><property>{address}</property></configuration>")
        monkeypatch.delenv("YARN_CONF_DIR", raising=False)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        yield Group(tmp_path, manager)


def test_it_is_submitted_to_the_cluster_and_watched_to_its_end(group: Group) -> None:
    result = group.run(Guard(lambda: None, group.succeeds))
    assert result["applications"] == ["etl"]
    properties = (group.manager.folder / "0").read_text().splitlines()
    assert {"spark.submit.deployMode=cluster", "spark.yarn.submit.waitAppCompletion=false"} <= {*properties}


def test_its_failure_is_that_of_the_task_and_the_next_attempt_submits_it_again(group: Group) -> None:
    with pytest.raises(DriverError, match=rf"driver {APP} \(.*{APP}/\) failed: User application exited with status 1"):
        group.run(Guard(lambda: group.manager.ends.update({APP: ("FINISHED", "FAILED")})))
    second = APP.replace("_0000", "_0001")
    group.run(Guard(lambda: group.manager.ends.update({second: ("FINISHED", "SUCCEEDED")})))
    assert len(group.manager.apps()) == 2


@pytest.mark.parametrize("moves", [True, False])
def test_if_the_task_moves_or_the_lease_is_over_the_next_worker_adopts_it(group: Group, moves: bool) -> None:
    guard = Guard()
    guard.then = [lambda: guard.stop(moves=True)] if moves else [guard.lose_lease]
    with pytest.raises(FencedError):
        group.run(guard)
    group.run(Guard(group.succeeds))
    assert len(group.manager.apps()) == 1
    assert group.manager.kills == []


def test_after_a_crash_of_all_workers_one_that_has_succeeded_meanwhile_is_not_submitted_again(group: Group) -> None:
    guard = Guard()
    guard.then = [guard.lose_lease]
    with pytest.raises(FencedError):
        group.run(guard)
    group.succeeds()
    assert group.run(Guard())["applications"] == ["etl"]
    assert len(group.manager.apps()) == 1


def test_a_job_without_run_key_that_was_removed_and_submitted_again_runs_again(group: Group) -> None:
    group.run(Guard(group.succeeds), run_key=None)
    second = APP.replace("_0000", "_0001")
    again = Guard(lambda: group.manager.ends.update({second: ("FINISHED", "SUCCEEDED")}))
    group.run(again, run_key=None, fingerprint="2b")
    assert len(group.manager.apps()) == 2


def test_if_the_job_is_stopped_it_is_killed(group: Group) -> None:
    guard = Guard()
    guard.then = [lambda: guard.stop(moves=False)]
    with pytest.raises(FencedError):
        group.run(guard)
    assert [app for app, _user in group.manager.kills] == [APP]


# ---- left to whoever watches it


def test_when_it_is_submitted_its_handle_is_all_that_is_needed(group: Group) -> None:
    handle = group.submit()
    (app,) = group.manager.apps()
    assert (handle.cluster, handle.tag) == ("yarn", app["applicationTags"])
    assert handle.result == {"applications": ["etl"]}
    assert handle_for(TaskId("nightly", 0), "group", handle.to_json()) == handle
    with pytest.raises(ValueError, match="its tag is that of other work"):
        handle_for(TaskId("nightly", 1), "group", handle.to_json())
    assert DriverHandle.from_json(handle.to_json()).to_json() == handle.to_json()


def test_a_worker_that_is_killed_before_it_has_told_the_handle_has_submitted_it_all_the_same(group: Group) -> None:
    first = group.submit()
    second = group.submit()
    assert first == second
    assert len(group.manager.apps()) == 1
    assert second.since_ms == group.manager.apps()[0]["startedTime"], "the time counts from the driver's start"


def test_one_that_has_succeeded_meanwhile_leaves_nothing_to_watch(group: Group) -> None:
    group.submit()
    group.succeeds()
    assert group.run(Guard(), detach=True)["applications"] == ["etl"]


def test_one_that_has_failed_by_then_has_failed_at_once(group: Group) -> None:
    group.manager.ends[APP] = ("FINISHED", "FAILED")
    with pytest.raises(DriverError, match="failed: User application exited with status 1"):
        group.submit()


def test_of_several_only_the_last_is_left_to_others(group: Group) -> None:
    several: Any = [{"name": "first"}, {"name": "second", "after": ["first"]}]
    handle = group.submit(Guard(group.succeeds), applications=several)
    assert handle.result == {"applications": ["first", "second"]}
    assert handle.tag == group.manager.apps()[1]["applicationTags"]


@pytest.mark.parametrize("moves", [True, False])
def test_if_the_task_is_stopped_while_it_is_submitted_it_is_killed_unless_it_only_moves(
    group: Group, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = Guard()
    begin = TaggedDriver.begin

    def stopped_then(tagged: TaggedDriver) -> Driver:
        driver = begin(tagged)
        guard.stop(moves=moves)
        return driver

    monkeypatch.setattr(TaggedDriver, "begin", stopped_then)
    with pytest.raises(FencedError):
        group.submit(guard)
    assert [app for app, _user in group.manager.kills] == ([] if moves else [APP])


# ---- which driver


def test_a_driver_is_known_by_the_run_the_task_and_the_application(group: Group) -> None:
    def tag(**changes: Any) -> str:
        task = group.task(**changes)
        return tag_of(task.config["applications"][0], task)

    assert tag() == tag(root="/on/another/machine")
    assert len({tag(), tag(run_key="tuesday"), tag(conf={"spark.executor.cores": 2})}) == 3
    assert tag() == tag().lower()


def test_the_cluster_is_yarn_or_kubernetes(group: Group) -> None:
    with pytest.raises(PlanError, match="for which its master must be 'yarn' or 'k8s://"):
        group.task(master="spark://master:7077")
