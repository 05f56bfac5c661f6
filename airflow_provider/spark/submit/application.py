"""An application as ``spark-submit`` takes it. In client mode, its driver is a child of this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from airflow_provider.spark.local.application.cluster import is_local
from airflow_provider.spark.local.application.scratch_folder import ScratchFolder
from airflow_provider.spark.local.application.spark_defaults import settings_in, spark_defaults
from airflow_provider.spark.local.application.time_zone import TIME_ZONE
from airflow_provider.spark.local.errors import SparkStartError
from airflow_provider.spark.local.pyspark_internals import home_of_spark
from airflow_provider.spark.properties import submit_options
from airflow_provider.spark.submit.watched_command import run_kept

_OF_THIS_PROCESS: Final = frozenset(
    {
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_GATEWAY_SECRET",
        "PYSPARK_SUBMIT_ARGS",
        "SPARK_CONNECT_AUTHENTICATE_TOKEN",
        "SPARK_CONNECT_MODE_ENABLED",
        "SPARK_REMOTE",
    }
)
"""Variables of this process's own Spark."""
_LOOPBACK: Final = ("SPARK_LOCAL_IP", "127.0.0.1")
"""This process's own Spark sets it, if it is local. Executors of a cluster could not reach a driver there."""


class NoSparkSubmitError(Exception):
    """This worker has no ``spark-submit``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application.

    :param file: a Python file or a jar: a path or a URL
    :param args: its arguments, which anybody on this machine can read while it runs
    :param main_class: of a jar; empty: as its manifest says
    :param settings: of Spark. Everything else that ``spark-submit`` has an option for is one of these
    :param properties_file: with more settings; empty: there is none
    :param spark_home: the folder of Spark; empty: that of PySpark
    :param time_zone: of its sessions, unless its settings or their file have one; empty: as Spark would
    """

    file: str
    args: Sequence[str] = ()
    main_class: str = ""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    properties_file: str = ""
    spark_home: str = ""
    time_zone: str = ""


def run_application(
    application: Application,
    *,
    hear: Callable[[str], None],
    check: Callable[[], None],
    lease_left_s: Callable[[], float],
) -> int:
    """Run it to its end. For the parameters see :func:`~airflow_provider.spark.submit.watched_command.run_kept`.

    :return: its exit code
    :raises NoSparkSubmitError: if there is no ``spark-submit``
    :raises OSError: if its properties file can't be read
    """
    home = home_of(application)
    given = Path(application.properties_file).read_bytes() if application.properties_file else b""
    scratch = ScratchFolder()
    try:
        folder = scratch.path / "work"
        folder.mkdir()
        settings = _settings(application, given)
        command = _command(application, home, submit_options(settings, scratch.path, given))
        environment = _environment(os.environ, home, {**_before(home, given), **settings})
        return run_kept(
            command, environment=environment, folder=folder, hear=hear, check=check, lease_left_s=lease_left_s
        )
    finally:
        scratch.remove()


def settings_known(application: Application) -> dict[str, str]:
    """All that are known, wherever they are from, as ``spark-submit`` adds them up.

    :raises NoSparkSubmitError: if there is no ``spark-submit``
    :raises OSError: if its properties file can't be read
    """
    given = Path(application.properties_file).read_bytes() if application.properties_file else b""
    return {**_before(home_of(application), given), **application.settings}


def home_of(application: Application) -> Path:
    """The folder of its Spark.

    :raises NoSparkSubmitError: if there is no ``spark-submit`` in it
    """
    try:
        home = Path(application.spark_home or home_of_spark())
    except (ImportError, SparkStartError):
        raise NoSparkSubmitError(
            "this worker has no spark-submit: install pyspark on it (pyspark-client has none), or name the folder of a"
            " Spark in spark_home"
        ) from None
    if not (home / "bin" / "spark-submit").is_file():
        raise NoSparkSubmitError(f"spark_home: this worker finds no bin/spark-submit in {home}")
    return home


def _before(home: Path, given: bytes) -> dict[str, str]:
    """The settings over which its own have precedence."""
    return {**spark_defaults(home), **settings_in(given)}


def _settings(application: Application, given: bytes) -> Mapping[str, str]:
    """Its settings, which have precedence over the file that is given."""
    own = application.settings
    if not application.time_zone or TIME_ZONE in settings_in(given):
        return own
    return {TIME_ZONE: application.time_zone, **own}


def _command(application: Application, home: Path, options: Sequence[str]) -> list[str]:
    of_class = ["--class", application.main_class] if application.main_class else []
    return [str(home / "bin" / "spark-submit"), *options, *of_class, application.file, *application.args]


def _environment(own: Mapping[str, str], home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The Python of a driver here is that of this process, unless the environment names another one.

    :param settings: all, wherever they are from
    """
    kept = {name: value for name, value in own.items() if name not in _OF_THIS_PROCESS}
    here = is_local(settings.get("spark.master", "local"))
    if not here and (_LOOPBACK[0], kept.get(_LOOPBACK[0])) == _LOOPBACK:
        del kept[_LOOPBACK[0]]
    if settings.get("spark.submit.deployMode") != "cluster":
        kept = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, **kept}
    return {**kept, "SPARK_HOME": str(home)}
