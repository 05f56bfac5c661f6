"""Which settings Spark is started with: the job's platform has the last word on what nobody has asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.spark.job.allowed_applications import AllowedApplications
from airflow_provider.spark.job.fencing import EndlessLease
from airflow_provider.spark.local.application.spark_application import LocalSparkSettings, _conf
from airflow_provider.worker.equipment import Equipment
from airflow_provider.worker.hands.in_process import InThisProcess, _connect_settings, _time_zone


def test_what_stands_in_spark_defaults_is_not_set_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else tables would be written into a folder that is removed with the worker's process."""
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.scheduler.mode FIFO\n"
        "spark.sql.warehouse.dir s3a://lake/tables\n"
        "  spark.ui.enabled=true\n"
        "spark.sql.shuffle.partitions: 77\n"
        "spark.master yarn\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))

    told = _conf(LocalSparkSettings(conf={"spark.ui.enabled": "false"}), tmp_path)

    assert not told.keys() & {"spark.sql.warehouse.dir", "spark.sql.shuffle.partitions"}
    assert told["spark.scheduler.mode"] == "FAIR", "a comment sets nothing"
    assert told["spark.ui.enabled"] == "false", "the operator's spark_conf wins"
    assert told["spark.master"] == "local[2]", "its spark_master too"


@pytest.mark.parametrize("folder", ["conf", None], ids=["in SPARK_HOME", "nowhere"])
def test_without_spark_defaults_tables_are_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str | None
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    if folder:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "spark-defaults.conf").write_text("spark.sql.warehouse.dir /lake\n")
    told = _conf(LocalSparkSettings(), tmp_path)
    assert told.get("spark.sql.warehouse.dir") == (None if folder else str(tmp_path / "warehouse"))


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_what_has_run_is_kept_for_a_ui_only_if_there_is_one(tmp_path: Path, enabled: str) -> None:
    """Else a worker's JVM grows with each task until Spark's thousands are reached."""
    retained = "spark.sql.ui.retainedExecutions"
    told = _conf(LocalSparkSettings(conf={"spark.ui.enabled": enabled}), tmp_path)
    assert (told.get(retained), told.get("spark.ui.retainedJobs")) == (
        ("50", "100") if enabled == "false" else (None, None)
    )
    assert _conf(LocalSparkSettings(conf={retained: "7"}), tmp_path)[retained] == "7", "the operator's word counts"


def test_the_time_zone_of_sessions_is_not_that_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one instant would have other dates on another worker."""
    zone = "spark.sql.session.timeZone"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert _conf(LocalSparkSettings(), tmp_path)[zone] == "UTC"
    assert _conf(LocalSparkSettings(conf={zone: "Asia/Tokyo"}), tmp_path)[zone] == "Asia/Tokyo"
    (tmp_path / "spark-defaults.conf").write_text(f"{zone} Asia/Tokyo\n")
    assert zone not in _conf(LocalSparkSettings(), tmp_path)


def test_a_worker_knows_the_time_zone_of_its_sessions_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def zone_of(master: str, **conf: str) -> str:
        return _time_zone(
            Equipment(runner="local", allowed=(), checkpoint_root=None, spark_master=master, spark_conf=conf)
        )

    mine = {"spark.sql.session.timeZone": "Europe/Berlin"}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert [zone_of("local[1]"), zone_of("sc://spark")] == ["UTC", "UTC"]
    assert [zone_of("local[1]", **mine), zone_of("sc://spark", **mine)] == ["Europe/Berlin"] * 2
    (tmp_path / "spark-defaults.conf").write_text("# a comment\n\nspark.sql.session.timeZone = Asia/Tokyo \n")
    assert [zone_of("local[1]"), zone_of("sc://spark")] == ["Asia/Tokyo", "UTC"], "a server does not read this file"
    assert zone_of("local[1]", **mine) == "Europe/Berlin"


@pytest.mark.parametrize("master", ["local[1]", "sc://spark"])
def test_so_have_the_applications_that_its_tasks_submit(master: str) -> None:
    equipment = Equipment(
        runner="local",
        allowed=(),
        checkpoint_root=None,
        spark_master=master,
        spark_conf={"spark.sql.session.timeZone": "Europe/Berlin"},
        applications=AllowedApplications(("/opt/apps",)),
    )
    member, topics = SimpleNamespace(worker="w", group_id="g"), SimpleNamespace(cluster="")
    hands: Any = InThisProcess(equipment)
    runner = hands._runner(print, SimpleNamespace(member=member), topics, EndlessLease(), lambda: None)
    assert runner._applications == AllowedApplications(("/opt/apps",), time_zone="Europe/Berlin", detach=True)


def test_sessions_of_a_server_have_the_worker_s_time_zone_and_not_the_server_s() -> None:
    equipment = Equipment(runner="local", allowed=(), checkpoint_root=None, spark_master="sc://spark")
    assert _connect_settings(equipment).conf == {"spark.sql.session.timeZone": "UTC"}
