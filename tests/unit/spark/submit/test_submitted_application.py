"""How ``spark-submit`` is called, with a stand-in for it: what is in its arguments, and what is not."""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_spark_home import make_spark_home, write_application

from airflow_provider.spark.submit import application as module
from airflow_provider.spark.submit.application import (
    Application,
    NoSparkSubmitError,
    run_application,
    settings_known,
)


class Submitted:
    """Runs applications, and hears them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = make_spark_home(folder)
        self.heard: list[str] = []

    def run(self, program: str, name: str = "etl.py", **more: Any) -> int:
        file = write_application(self.folder / "apps" / name, program)
        return run_application(
            Application(file=file, spark_home=str(self.home), **more),
            hear=self.heard.append,
            check=lambda: None,
            lease_left_s=lambda: math.inf,
        )


@pytest.fixture
def submitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return Submitted(tmp_path)


def test_it_gets_its_arguments_as_they_are(submitted: Submitted) -> None:
    args = ["--day", "2026-01-01", "a b", "", "$HOME; echo 'x'"]
    assert submitted.run('for each in "$@"; do echo "<$each>"; done; exit 7', args=args) == 7
    assert submitted.heard == [f"<{each}>" for each in args]


def test_its_settings_are_known_wherever_they_are_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, given = make_spark_home(tmp_path), tmp_path / "given.properties"
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text("spark.a defaults\nspark.b defaults\nspark.c defaults\n")
    given.write_text("spark.b=given\nspark.c=given\n")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    without = Application(file="etl.py", spark_home=str(home), settings={"spark.c": "own"})
    known = settings_known(replace(without, properties_file=str(given)))
    assert known == {"spark.a": "defaults", "spark.b": "given", "spark.c": "own"}
    assert settings_known(without)["spark.b"] == "defaults"


def test_settings_are_in_a_file_that_nobody_else_can_read_and_not_in_the_arguments(submitted: Submitted) -> None:
    program = """
    stat -c %a "$PROPERTIES" "$(dirname "$PROPERTIES")"; cat "$PROPERTIES"
    tr '\\0' ' ' < /proc/$PPID/cmdline
    """
    submitted.run(program, settings={"spark.a": "geheim", "spark.b": "größe"}, main_class="org.Main", name="etl.jar")
    modes, lines, command = submitted.heard[:2], submitted.heard[2:4], submitted.heard[4:]
    assert modes == ["600", "700"]
    assert lines == ["spark.a=geheim", "spark.b=gr\\u00f6\\u00dfe"]
    assert "--class org.Main" in command[0]
    assert "geheim" not in command[0]


def test_settings_have_precedence_over_a_file_of_properties(submitted: Submitted) -> None:
    given = submitted.folder / "more.properties"
    given.write_text("spark.a=1\nspark.c=x\\")
    submitted.run('cat "$PROPERTIES"', settings={"spark.a": "2"}, properties_file=str(given))
    assert [line for line in submitted.heard if line] == ["spark.a=1", "spark.c=x\\", "spark.a=2"]


ZONE = "spark.sql.session.timeZone"


@pytest.mark.parametrize(
    ("given", "settings", "seen"),
    [
        ("", {}, [f"{ZONE}=Asia/Tokyo"]),
        ("", {ZONE: "Europe/Berlin"}, [f"{ZONE}=Europe/Berlin"]),
        (f"{ZONE} Europe/Berlin", {"spark.a": "1"}, [f"{ZONE} Europe/Berlin", "spark.a=1"]),
    ],
    ids=["none", "settings", "file"],
)
def test_its_sessions_have_the_time_zone_of_its_worker_s_tasks_unless_it_has_its_own(
    submitted: Submitted, given: str, settings: dict[str, str], seen: list[str]
) -> None:
    """Else one instant would have two dates, in a task and in an application."""
    file = write_application(submitted.folder / "given.properties", given) if given else ""
    submitted.run('cat "$PROPERTIES"', settings=settings, properties_file=file, time_zone="Asia/Tokyo")
    assert [line.replace("\\u002f", "/") for line in submitted.heard if line] == seen


def test_it_works_in_a_folder_of_its_own_that_is_gone_afterwards(submitted: Submitted) -> None:
    submitted.run("pwd; ls; touch left")
    (folder,) = submitted.heard
    assert folder.startswith(tempfile.gettempdir())
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_its_environment_is_the_workers_without_what_belongs_to_the_workers_own_spark(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_WORKER", "yes")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1234")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    program = 'echo "$OF_THE_WORKER|$PYSPARK_GATEWAY_PORT|$SPARK_LOCAL_IP|$SPARK_HOME"; test -x "$PYSPARK_PYTHON"'
    assert submitted.run(program) == 0
    assert submitted.run(program, settings={"spark.master": "spark://master:7077"}) == 0
    assert submitted.heard == [f"yes||127.0.0.1|{submitted.home}", f"yes|||{submitted.home}"]


@pytest.mark.parametrize("where", ["given.properties", "spark/conf/spark-defaults.conf"])
def test_a_driver_of_a_cluster_can_be_reached_wherever_its_master_is_named(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    named = write_application(submitted.folder / where, "spark.master  spark://master:7077\n")
    given = named if where.startswith("given") else ""
    submitted.run('echo "<$SPARK_LOCAL_IP>"', properties_file=given)
    submitted.run('echo "<$SPARK_LOCAL_IP>"', properties_file=given, settings={"spark.master": "local[2]"})
    assert submitted.heard == ["<>", "<127.0.0.1>"]


def test_a_spark_home_without_spark_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSparkSubmitError, match=rf"^spark_home: .* no bin/spark-submit in {tmp_path}$"):
        module.home_of(Application(file="/etl.py", spark_home=str(tmp_path)))


def test_a_worker_with_a_client_of_spark_connect_only_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_spark() -> str:
        raise ImportError

    monkeypatch.setattr(module, "home_of_spark", no_spark)
    with pytest.raises(NoSparkSubmitError, match="install pyspark on it"):
        module.home_of(Application(file="/etl.py"))
