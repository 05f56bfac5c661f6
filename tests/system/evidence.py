"""What a failed system test leaves behind: logs, processes, Airflow's task instances, and the groups' topics as
``cospark`` shows them. Module ``browser`` adds what was on the screen.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final

import psutil
from airflow_group import Group
from cospark_command import run_cospark
from left_behind import folder_of, line_of

from demo.airflow import LocalAirflow

_RUNS: Final = "/dags/~/dagRuns/~/taskInstances"
_INSTANCES: Final = 200
_COMMANDS: Final = ("groups describe --tasks", "jobs list", "status --once")


def leave_behind(test: str, airflow: LocalAirflow, groups: Iterable[Group]) -> Path:
    """Write all of it into the test's folder. What can't be had says why, and the rest is written all the same.

    :param test: the test's id
    :param groups: those that it has made
    """
    folder = folder_of(test)
    _try(folder / "logs.txt", partial(_copy_logs, airflow, folder / "logs"))
    _try(folder / "task-instances.txt", partial(_task_instances, airflow))
    _try(folder / "processes.txt", partial(_processes, airflow))
    for group in groups:
        for command in _COMMANDS:
            _try(folder / f"{group.name}-{command.split()[0]}.txt", partial(_said, command, group))
    return folder


def _try(file: Path, write: Callable[[], str]) -> None:
    try:
        text = write()
    except Exception as error:  # noqa: BLE001  a component that is gone must not hide what the others say
        text = f"it can't be had: {type(error).__name__}: {error}"
    file.write_text(f"{text}\n")


def _copy_logs(airflow: LocalAirflow, to: Path) -> str:
    shutil.copytree(airflow.home / "logs", to, dirs_exist_ok=True)
    return f"from {airflow.home / 'logs'}"


def _task_instances(airflow: LocalAirflow) -> str:
    params = {"limit": _INSTANCES, "order_by": "-id"}
    found = airflow.api.request("GET", _RUNS, params=params)["task_instances"]
    return "\n".join(
        f"{each['dag_id']}.{each['task_id']}[{each['map_index']}] {each['dag_run_id']} try {each['try_number']}:"
        f" {each['state']}, {each['start_date']} to {each['end_date']}, pid {each['pid']}"
        for each in found
    )


def _processes(airflow: LocalAirflow) -> str:
    lines = []
    for name, process in airflow.processes.items():
        lines.append(f"{name}:")
        for each in process.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                lines.append(f"  {line_of(each)}")
    return "\n".join(lines)


def _said(command: str, group: Group) -> str:
    return run_cospark(group.bootstrap_servers, *command.split(), group.name).stdout
