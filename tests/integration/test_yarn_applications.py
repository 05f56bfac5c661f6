"""Applications on a real YARN, submitted by real workers: one driver each, whoever ends or begins anew meanwhile."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from fleet import SHORT_SESSION, Fleet, MakeFleet, cospark
from real_yarn import RealYarn
from waiting import eventually, wait_until

from airflow_provider.servers.own_process import HOST
from airflow_provider.spark.submit.detached import ClusterSilentError
from airflow_provider.spark.submit.yarn import Yarn
from airflow_provider.state.records import TaskState, TaskStatus
from airflow_provider.values.model import TaskId

pytestmark = pytest.mark.thorough

DRIVER = """
import os, sys, time
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
folder = Path(sys.argv[1])
(folder / f"driver-{os.getpid()}").write_text(str(os.getppid()))
while not (folder / "go").exists():
    time.sleep(0.1)
(folder / "rows").write_text(str(spark.range(1000).repartition(2).count()))
"""
STARTS = "from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()\n"
FAILS = 'raise ValueError("no such day")\n'
JOB = "nightly"
TASK = TaskId(JOB, 0)


@pytest.fixture(scope="module")
def yarn() -> Iterator[RealYarn]:
    with RealYarn() as running:
        yield running


@pytest.fixture
def fleet(fleet: MakeFleet, yarn: RealYarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeFleet:
    """Workers that know this YARN, and submit what is in the test's folder."""
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
    places = (word for place in (tmp_path, yarn.folder, "yarn") for word in ("--allow-application", str(place)))
    return partial(fleet, "--allow", "airflow_provider.jobs", *places)


class Etl:
    """A job of one application, and what is to be seen of it."""

    def __init__(self, group: Fleet, yarn: RealYarn, folder: Path, program: str = DRIVER) -> None:
        self._group, self._yarn, self._folder = group, yarn, folder
        (folder / "etl.py").write_text(program)
        self._before = {app["id"] for app in yarn.applications()}

    async def submit(self) -> None:
        config = {
            "application": f"{self._folder}/etl.py",
            "args": [str(self._folder)],
            "master": "yarn",
            "deploy_mode": "cluster",
            "properties_file": str(self._yarn.properties),
        }
        job = "airflow_provider.jobs.spark_applications:SparkApplications"
        await self._group.submit(JOB, tasks=1, entry_point=job, config=config, retries=0)

    def application(self) -> dict[str, Any]:
        """The only one that was submitted."""
        (found,) = [app for app in self._yarn.applications() if app["id"] not in self._before]
        return found

    async def driver(self, *but: psutil.Process) -> psutil.Process:
        """The JVM of the driver that has begun, unless it is one of those."""
        before = {f"{process.pid}" for process in but}

        def begun() -> list[str]:
            return [text for file in self._folder.glob("driver-*") if (text := file.read_text()) not in {"", *before}]

        await self._group.eventually(begun, "its driver runs")
        return psutil.Process(int(begun()[0]))

    async def said(self, state: TaskState, what: str) -> TaskStatus:
        def holds(_jobs: object, status: Any) -> bool:
            last = status.tasks.get(TASK)
            return last is not None and last.state is state

        await self._group.wait_for(holds, what)
        return self._group.topics.status.tasks[TASK]


def named_while(starts: Callable[[], None], cluster: Yarn, tag: str) -> list[str]:
    """The drivers with a tag that a resource manager has named each time that it has answered since its start."""
    answers, over = list[str](), threading.Event()

    def ask() -> None:
        while not over.is_set():
            with contextlib.suppress(ClusterSilentError):
                answers.append(", ".join(driver.id for driver in cluster.find(tag)))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        starts()
        wait_until(lambda: answers)
    finally:
        over.set()
        asking.join()
    return answers


async def test_it_survives_its_worker_and_the_daemons_of_yarn_and_is_submitted_once(
    fleet: MakeFleet, yarn: RealYarn, tmp_path: Path
) -> None:
    async with fleet(*SHORT_SESSION, "--max-delay-ms", "0") as group:
        etl = Etl(group, yarn, tmp_path)
        await etl.submit()
        group.start("w1")
        driver = await etl.driver()
        submitted = etl.application()
        assert submitted["state"] == "RUNNING"
        link = f"Driver {submitted['id']} is to be seen at {submitted['trackingUrl']}"
        await group.eventually(lambda: link in group.log_of("w1"), "its log has the link")

        group.kill("w1")
        group.start("w2")
        adopted = "keeps running, and is watched from here"
        await group.eventually(lambda: adopted in group.log_of("w2"), "the next worker adopts it")
        await group.eventually(lambda: link in group.log_of("w2"), "and has the link")
        assert (await etl.said(TaskState.RUNNING, "it runs")).worker == "w2"

        yarn.node.kill()
        yarn.start_node()
        yarn.manager.kill()
        await group.eventually(lambda: "no resource manager answers" in group.log_of("w2"), "w2 has noticed")
        answers = named_while(yarn.manager.start, Yarn([yarn.address]), submitted["applicationTags"])
        assert {*answers} == {submitted["id"]}, "none, and it would be submitted again"
        await eventually(lambda: etl.application()["state"] == "RUNNING", etl.application)
        assert driver.is_running(), "the same driver, by YARN's recovery"

        os.killpg(os.getpgid(driver.pid), signal.SIGKILL)
        await etl.driver(driver)
        assert etl.application()["id"] == submitted["id"], "YARN has started its driver again"

        (tmp_path / "go").touch()
        done = await etl.said(TaskState.FINISHED, "it has succeeded")
        assert isinstance(done.result, dict)
        assert done.result["applications"] == ["etl"]
        assert (done.worker, done.attempt, done.failures) == ("w2", 1, 0)
        assert (tmp_path / "rows").read_text() == "1000"
        assert etl.application()["finalStatus"] == "SUCCEEDED"


async def test_it_is_killed_if_its_job_is_stopped(fleet: MakeFleet, yarn: RealYarn, tmp_path: Path) -> None:
    async with fleet() as group:
        etl = Etl(group, yarn, tmp_path)
        await etl.submit()
        group.start("w1")
        driver = await etl.driver()
        assert (await cospark(group, "jobs", "stop", group.group_id, JOB)).status == 0
        await etl.said(TaskState.STOPPED, "its task has stopped")
        killed = etl.application()
        assert killed["state"] == "KILLED", "before the task has"
        assert killed["diagnostics"].endswith(f"was killed by user {getpass.getuser()}")
        await eventually(lambda: not driver.is_running(), "its driver ends")
        await eventually(lambda: not yarn.containers(), yarn.containers)


@pytest.mark.parametrize("program", [FAILS, STARTS + FAILS], ids=["before its Spark starts", "later"])
async def test_its_failure_is_told_with_the_diagnostics(
    fleet: MakeFleet, yarn: RealYarn, tmp_path: Path, program: str
) -> None:
    async with fleet() as group:
        etl = Etl(group, yarn, tmp_path, program)
        await etl.submit()
        group.start("w1")
        failed = await etl.said(TaskState.FAILED, "it has failed")
        application = etl.application()
        assert failed.error is not None
        assert f"driver {application['id']} ({application['trackingUrl']}) failed: " in failed.error.message
        assert "User application exited with status 1" in failed.error.message


async def test_a_worker_may_have_its_executors_there(fleet: MakeFleet, yarn: RealYarn) -> None:
    conf = {**yarn.settings(), "spark.driver.host": HOST, "spark.driver.bindAddress": HOST}
    options = (word for name, value in conf.items() for word in ("--spark-conf", f"{name}={value}"))
    before = {app["id"] for app in yarn.applications()}
    async with fleet("--allow", "jobs_for_tests", "--spark-master", "yarn", *options) as group:
        await group.submit("squares", tasks=4, entry_point="jobs_for_tests:Squares", config={"rows": 100})
        group.start("w1")
        tasks = [TaskId("squares", index) for index in range(4)]

        def finished(_jobs: object, status: Any) -> bool:
            return all(task in status.tasks and status.tasks[task].state is TaskState.FINISHED for task in tasks)

        await group.wait_for(finished, "all tasks have finished")
        (application,) = (app for app in yarn.applications() if app["id"] not in before)
        assert (application["state"], application["applicationType"]) == ("RUNNING", "SPARK")
        assert any("CoarseGrainedExecutorBackend" in "".join(each.cmdline()) for each in yarn.containers())
