"""The tutorial, typed as it stands there, prints what stands below each command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from postgresql import chosen_database
from waiting import DEADLINE_S, RUN_DEADLINE_S, wait_until

from airflow_provider.servers.local_broker import LocalBroker
from demo.airflow import LocalAirflow
from demo.databases import Database

pytestmark = pytest.mark.thorough  # an Airflow of its own

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
FOLDER, SERVERS, ANYTHING = "/tmp/cospark-tutorial", "127.0.0.1:9092", "…"
DAGS = ("shop_batch", "shop_streams", "shop_sql")
BLOCK = re.compile(r"(?:<!-- ([^>]*) -->\n)?```\w+\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A block of the page.

    :param mark: the comment before it
    :param printed: what stands below it
    """

    mark: str
    text: str
    printed: str

    def is_printed_by(self, output: str) -> bool:
        lines = re.escape(self.printed.strip()).replace(re.escape(ANYTHING), ".*")
        return re.fullmatch(lines, output.strip(), re.DOTALL) is not None


def steps(section: str) -> Iterator[Step]:
    return (Step(*(part or "" for part in found.groups())) for found in BLOCK.finditer(section))


@dataclass(frozen=True)
class Reader:
    """Does what the page says, in another folder and with another broker.

    :param env: besides what the page sets
    """

    folder: Path
    servers: str
    env: dict[str, str]

    def follow(self, section: str) -> None:
        for step in steps(section):
            if step.mark.startswith("file "):
                (self.folder / step.mark.removeprefix("file ")).write_text(self._here(step.text))
            elif step.mark == "soon":
                self._type_until_it_is_so(step)
            elif not step.mark:
                done = self._type(step)
                assert done.returncode == 0, f"{step.text}{done.stdout}{done.stderr}"
                assert not step.printed or step.is_printed_by(done.stdout), f"{step.text}{done.stdout}"

    def _type_until_it_is_so(self, step: Step) -> None:
        outputs: list[str] = []

        def is_so() -> bool:
            outputs.append(self._type(step).stdout)
            return step.is_printed_by(outputs[-1])

        wait_until(is_so, lambda: f"{step.text}{outputs[-1]}")

    def _type(self, step: Step) -> subprocess.CompletedProcess[str]:
        settings = self.folder / "env.sh"
        typed = f". {settings}\n{step.text}" if settings.exists() else step.text
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", self._here(typed)],
            cwd=self.folder,
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    def _here(self, text: str) -> str:
        return text.replace(FOLDER, str(self.folder)).replace(SERVERS, self.servers)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database | None]:
    with chosen_database(tmp_path / "airflow") as database:
        yield database


def test_the_first_jobs_run_as_the_tutorial_says(
    broker: LocalBroker, database: Database | None, tmp_path: Path
) -> None:
    before, _, after = PAGE.partition("\n## 4. ")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "activate").write_text(f"export PATH={Path(sys.executable).parent}:$PATH\n")
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap_servers}}
    airflow = LocalAirflow(
        tmp_path / "airflow",
        dag_folders=[tmp_path / "dags"],
        connections={"kafka_default": json.dumps(kafka)},
        database=database,
        env={"AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False"},
        timeout_s=RUN_DEADLINE_S,
    )
    url = airflow.database.url(lock_timeout_s=60)
    reader = Reader(tmp_path, broker.bootstrap_servers, {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url})
    reader.follow(before)
    with airflow:
        for dag in DAGS:
            airflow.api.wait_for_dag(dag)
        reader.follow(after)
        for dag in DAGS:
            (run,) = airflow.api.request("GET", f"/dags/{dag}/dagRuns")["dag_runs"]
            airflow.api.wait_for_run(dag, run["dag_run_id"])
