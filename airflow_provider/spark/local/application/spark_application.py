"""The one Spark application of this process, started when the first task needs it.

PySpark allows one application in a process. So all runners of the process share it, and the last one stops it. The JVM
lives as long as the process, and ends with it in any case: it reads a pipe from this process, and ends when the pipe is
closed (``PythonGatewayServer`` in Spark; :mod:`airflow_provider.spark.local.driver_jvm.jvm`).
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import sys
import threading
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Final

from airflow_provider.spark.local.application.cluster import is_local, warn_of_unlimited_cores
from airflow_provider.spark.local.application.scratch_folder import ScratchFolder
from airflow_provider.spark.local.application.spark_defaults import spark_defaults
from airflow_provider.spark.local.application.standalone import unreachable
from airflow_provider.spark.local.application.time_zone import UTC
from airflow_provider.spark.local.driver_jvm.jvm import jvm_started, mark_next_jvm
from airflow_provider.spark.local.driver_jvm.jvm_lease import (
    ENDED_BY_LEASE,
    WATCH,
    JvmLease,
    LeaseLeft,
    no_task_runs,
    watch_source,
)
from airflow_provider.spark.local.driver_jvm.pulse import Pulse, end_jvm, pulse_of
from airflow_provider.spark.local.errors import SparkAwayError, SparkGoneError, SparkStartError
from airflow_provider.spark.local.isolation.shared_tables import SharedTables
from airflow_provider.spark.local.isolation.task_threads import (
    install_task_threads,
    session_for_nobody,
    uninstall_task_threads,
)
from airflow_provider.spark.local.pyspark_internals import (
    compiled,
    forget_application,
    home_of_spark,
    jvm_process,
    start_jvm,
    stop_application,
)
from airflow_provider.spark.local.shipping import Shipment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
# It logs each callback connection that it closes, which is of no use in a task's log.
logging.getLogger("py4j").setLevel(logging.WARNING)


def _is_for_people(record: logging.LogRecord) -> bool:
    """False for what py4j writes to the root logger, with a traceback, when the JVM has ended and it tries again. That
    the JVM has ended is logged elsewhere, too.
    """
    return record.levelno >= logging.WARNING or Path(record.pathname).parent.name != "py4j"


logging.getLogger().addFilter(_is_for_people)

POOLS: Final = tuple(f"task-{number}" for number in range(64))
"""The FAIR pools, all of the same weight. Spark never removes a pool, so tasks share these."""

_UNSEEN: Final[Mapping[str, str]] = {
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
}
"""How much Spark remembers for its UI. By default it is ten to a hundred times as much, even if the UI is off."""

_EXITS: Final[Mapping[int, str]] = {
    -9: " (killed: was the machine out of memory?)",
    52: " (out of memory: raise spark.driver.memory)",
}
"""The meaning of some exit codes of the JVM; the second one is Spark's own (``SparkExitCode.OOM``)."""

_OURS: Final = frozenset({"spark.master", "spark.app.name", "spark.driver.defaultJavaOptions"})
"""Settings that ``spark-defaults.conf`` does not change: the first two are parameters of the worker, and without the
third a stop can overflow a stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSparkSettings:
    """How to start Spark in this process.

    :param master: Spark's master URL; ``local[N]`` uses N threads of the JVM
    :param app_name: the application's name
    :param conf: Spark settings. They take precedence over ``spark-defaults.conf``, which takes precedence over the
        defaults here
    """

    master: str = "local[2]"
    app_name: str = "cospark"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunningSpark:
    """A Spark application of this process, which may have ended since.

    :param number: counts the applications of this process, from 1
    :param root: its first session, from which the sessions of tasks are derived
    :param jvm: its JVM; None: somebody else has started it
    :param shipment: which modules of jobs its executors have
    :param tables: the tables that its tasks share
    :param ui: the address of its Spark UI, as Spark reports it; empty: the UI is off
    :param lease: the lease of its tasks in its JVM; None: somebody else has started that
    :param was_silent: set when its JVM was ended because it did not answer
    """

    number: int
    root: SparkSession
    jvm: Popen[bytes] | None
    shipment: Shipment
    tables: SharedTables = field(default_factory=SharedTables)
    ui: str = ""
    lease: JvmLease | None = None
    was_silent: threading.Event = field(default_factory=threading.Event)

    @property
    def alive(self) -> bool:
        """Whether it can run anything. If its JVM does not answer, this waits, and then ends the JVM: what runs there
        could not be stopped, and its tasks go elsewhere.
        """
        pulse = pulse_of(self.root, self.jvm)
        if pulse is Pulse.SILENT:
            self.was_silent.set()
            if self.jvm is not None:
                end_jvm(self.jvm)
        return pulse is Pulse.BEATS

    def renew_lease(self) -> None:
        """Call this before a task's code is called: from then on, the JVM does not outlive the lease.

        :raises Exception: if the JVM does not answer
        """
        if self.lease is not None:
            self.lease.renew()

    def end_lease(self) -> None:
        """No task runs on it any more."""
        if self.lease is not None:
            self.lease.close()

    def gone(self) -> SparkGoneError:
        """An error that says how it has ended."""
        code = None if self.jvm is None else self.jvm.poll()
        if self.was_silent.is_set():
            why = "its JVM did not answer any more (its gateway was closed, by a task or by a fault), so it was ended"
        elif code is None:
            why = "its context was stopped: by its master, by a task, or by a fatal error; see the log above"
        elif code == ENDED_BY_LEASE and self.lease is not None:
            why = f"its JVM has ended itself, because {self.lease.why_over()}"
        else:
            why = f"its JVM's exit code is {code}{_EXITS.get(code, '')}"
        return SparkGoneError(f"this worker's Spark has ended: {why}", spark=self.number)


class SparkApplication:
    """Starts, shares and stops the process's Spark application. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[object, LeaseLeft] = {}
        self._number = 0
        self._running: RunningSpark | None = None
        self._folder: ScratchFolder | None = None
        self._found_running = False

    def running_for(
        self, user: object, settings: LocalSparkSettings, lease_left_s: LeaseLeft = no_task_runs
    ) -> RunningSpark:
        """The application; starts it if there is none.

        :param user: who uses it, until :meth:`release`
        :param settings: how to start it; ignored if it is already running
        :param lease_left_s: how much is left of the lease of the user's tasks
        :raises SparkStartError: if Spark does not start
        """
        with self._lock:
            if self._running is not None and not self._running.alive:
                self._discard(self._running)
            if self._running is None:
                self._running = self._start(settings)
            self._users[user] = lease_left_s
            return self._running

    def release(self, user: object) -> None:
        """``user`` no longer needs Spark: stop it if nobody else needs it, and if it was started here."""
        with self._lock:
            try:
                if self._running is not None and not self._users.keys() - {user}:
                    self._stop(self._running)
            finally:
                self._users.pop(user, None)  # only now: until Spark has stopped, the lease of its tasks is kept

    def _stop(self, running: RunningSpark) -> None:
        if not running.alive:
            self._discard(running)
            return
        self._running = None
        if not self._found_running:
            running.root.stop()
        running.end_lease()
        self._clean_up()

    def _start(self, settings: LocalSparkSettings) -> RunningSpark:
        """No code of a task runs in here: whatever goes wrong, this worker can't run any task."""
        try:
            return self._try_to_start(settings)
        except SparkStartError:
            self._clean_up()
            raise
        except Exception as error:
            self._clean_up()
            raise SparkStartError(
                f"Spark did not start with master {settings.master!r} (Java's output is in the worker's log)"
            ) from error

    def _try_to_start(self, settings: LocalSparkSettings) -> RunningSpark:
        _require_pyspark()
        _require_java()
        _require_master(settings)
        from pyspark import SparkContext

        self._found_running = SparkContext._active_spark_context is not None  # noqa: SLF001
        try:
            return self._start_or_share(settings)
        except BaseException:
            if not self._found_running:
                stop_application()  # the next start would take it for somebody else's
            raise

    def _start_or_share(self, settings: LocalSparkSettings) -> RunningSpark:
        from pyspark.sql import SparkSession

        self._folder = ScratchFolder()
        conf = _conf(settings, self._folder.path)
        mark_next_jvm()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        log.info("Spark starts with master %s", settings.master)
        start_jvm(conf, self._folder.path)
        root = SparkSession.builder.config(map={**conf}).getOrCreate()
        jvm = jvm_process()
        if pulse_of(root, jvm) is not Pulse.BEATS:
            forget_application()
            raise SparkStartError(f"Spark ended while it started with master {settings.master!r}; see the log above")
        install_task_threads((lambda: root) if self._found_running else session_for_nobody)
        log.info("Spark %s runs with master %s", root.version, settings.master)
        warn_of_unlimited_cores(settings.master, root.sparkContext.getConf())
        self._number += 1
        running = RunningSpark(
            number=self._number,
            root=root,
            jvm=jvm,
            shipment=Shipment(self._folder.path),
            ui=root.sparkContext.uiWebUrl or "",
            lease=None if jvm is None else JvmLease(jvm, compiled(watch_source(), f"cospark.{WATCH}"), self._leases),
        )
        jvm_started(jvm)
        return running

    def _leases(self) -> list[float | None]:
        return [left_s() for left_s in [*self._users.values()]]

    def _discard(self, running: RunningSpark) -> None:
        log.warning("%s; the next task starts another", running.gone())
        self._running = None
        forget_application()
        running.end_lease()
        self._clean_up()

    def _clean_up(self) -> None:
        uninstall_task_threads()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None


APPLICATION: Final = SparkApplication()


def _require_pyspark() -> None:
    if importlib.util.find_spec("py4j") is None or importlib.util.find_spec("pyspark") is None:
        raise SparkStartError(
            "there is no PySpark with Spark here: pip install 'pyspark>=4,<5',"
            " or let the worker use a Spark Connect server (spark_conn_id)"
        )
    home_of_spark()


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        raise SparkStartError(f"there is no Java {where}: Spark needs Java 17 or newer; install one, or set JAVA_HOME")


def _require_master(settings: LocalSparkSettings) -> None:
    """Check that the master can be reached: Spark itself would try for a minute.

    :raises SparkAwayError: if it can't be reached
    """
    master = settings.conf.get("spark.master", settings.master)
    refusals = unreachable(master)
    if refusals:
        raise SparkAwayError(f"no Spark master can be reached at {master} ({refusals}); is it started?")


def _conf(settings: LocalSparkSettings, folder: Path) -> dict[str, str]:
    """The settings to start Spark with. They would take precedence over ``spark-defaults.conf``, so defaults for what
    is set there are left out.
    """
    named = spark_defaults().keys() - _OURS
    given = {**_without(_defaults(settings, folder), named), **settings.conf}
    return {**_without(_UNSEEN, named), **given} if given.get("spark.ui.enabled") == "false" else given


def _without(settings: Mapping[str, str], named: Set[str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name not in named}


def _defaults(settings: LocalSparkSettings, folder: Path) -> dict[str, str]:
    conf = {
        "spark.master": settings.master,
        "spark.app.name": settings.app_name,
        "spark.log.level": "WARN",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        **UTC,
        "spark.scheduler.allocation.file": str(_write_pools(folder)),
        # Spark keeps these threads for a minute each, together with the session of the task that they were made for.
        "spark.sql.shuffleExchange.maxThreadThreshold": "32",
        "spark.sql.resultQueryStage.maxThreadThreshold": "32",
    }
    if is_local(settings.master):
        conf |= _local_defaults(folder)
    return conf


def _local_defaults(folder: Path) -> dict[str, str]:
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # Spark finds out with a deeply recursive regular expression whether a stop has interrupted a foreachBatch
        # (StreamExecution.isInterruptionException): Java's default stack of 1 MB is too small for that.
        "spark.driver.defaultJavaOptions": f"-Xss8m -Dderby.system.home={folder}",
        # Spark's default of 200 is for clusters: with a few threads, most partitions would cost more than their work.
        "spark.sql.shuffle.partitions": "4",
    }


def _write_pools(folder: Path) -> Path:
    pools = "".join(
        f'<pool name="{name}"><schedulingMode>FIFO</schedulingMode><weight>1</weight><minShare>0</minShare></pool>'
        for name in POOLS
    )
    file = folder / "pools.xml"
    file.write_text(f'<?xml version="1.0"?><allocations>{pools}</allocations>', encoding="utf-8")
    return file
