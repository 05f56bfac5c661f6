"""The uses of the private parts of PySpark with a Spark of its own, in one place. What makes a thread a task's is in
:mod:`airflow_provider.spark.local.isolation.task_threads`.
"""
# ruff: noqa: SLF001 - this is what the module is for

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Final

from airflow_provider.spark.local.driver_jvm.jvm_log import JvmLog
from airflow_provider.spark.local.driver_jvm.pulse import end_jvm
from airflow_provider.spark.local.errors import SparkStartError
from airflow_provider.spark.properties import submit_options

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = logging.getLogger(__name__)

_LAST_WORDS_S: Final = 2.0
"""How long to wait for the log of a JVM that did not start."""

_STOP_S: Final = 30.0
"""How long to wait at most for a context that stops."""

_SUBMIT_ARGS: Final = "PYSPARK_SUBMIT_ARGS"


def home_of_spark() -> str:
    """Where PySpark finds Spark: ``SPARK_HOME``, or what was installed with it.

    :raises SparkStartError: if it finds none; PySpark itself would end the process
    """
    from pyspark.find_spark_home import _find_spark_home

    try:
        return str(_find_spark_home())
    except SystemExit:
        raise SparkStartError("PySpark finds no Spark here: set SPARK_HOME, or install PySpark again") from None


def ends_by_itself(query: StreamingQuery) -> bool:
    """Whether the query's trigger makes it end when it has read all data. PySpark does not tell. If Spark does not tell
    either, the answer is True.
    """
    try:
        trigger = query._jsq.streamingQuery().trigger().getClass().getSimpleName()
    except Exception:
        log.warning("Can't tell whether streaming query %s ends by itself", query.id, exc_info=True)
        return True
    return not trigger.startswith(("ProcessingTime", "Continuous", "RealTime"))


def batches_done(query: StreamingQuery) -> int:
    """How many of the last hundred triggers have completed a batch. This is cheaper than the progress itself, which is
    JSON.
    """
    return len(query._jsq.recentProgress())


def last_batch(query: StreamingQuery) -> tuple[int, float] | None:
    """The number of the last completed batch, and how many seconds it took; None: there was none."""
    progress = query._jsq.lastProgress()
    if progress is None:
        return None
    return int(progress.batchId()), float(progress.durationMs().get("triggerExecution") or 0) / 1000


def is_busy(query: StreamingQuery) -> bool:
    """Whether the query is in a batch, or looks for the next one."""
    return bool(query._jsq.isActive()) and bool(query._jsq.status().isTriggerActive())


def sink_of(stream: DataStreamWriter) -> str:
    """The format that the stream writes, or ``foreachBatch``."""
    writer = stream._jwrite
    source = writer.getClass().getDeclaredField("source")
    source.setAccessible(True)
    return str(source.get(writer))


def options_of_sources(stream: DataStreamWriter) -> list[dict[str, str]]:
    """The options of each file source that the stream reads, with names in lower case."""
    return [
        {str(pair._1()).lower(): str(pair._2()) for pair in _in_scala(leaf.dataSource().options())}
        for leaf in _in_scala(stream._df._jdf.queryExecution().analyzed().collectLeaves())
        if leaf.getClass().getSimpleName() == "StreamingRelation"
    ]


def _in_scala(collection: Any) -> Iterator[Any]:
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()


def start_jvm(conf: Mapping[str, str], folder: Path) -> None:
    """Start the JVM if there is none, as ``SparkContext`` does, but log what it prints on stderr, and keep its settings
    out of its arguments.

    :param folder: for the settings; only this user can read it
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    stderr = JvmLog()
    try:
        with stderr, _submitted_with(submit_options(conf, folder)):
            gateway = launch_gateway(None, {"stderr": stderr.writing})  # type: ignore[no-untyped-call]  # without hints
    except Exception:
        stderr.join(_LAST_WORDS_S)
        raise
    SparkContext._ensure_initialized(gateway=gateway)


@contextlib.contextmanager
def _submitted_with(options: Sequence[str]) -> Iterator[None]:
    """Let PySpark start the JVM with these options, and with those of the user after them, which win."""
    given = os.environ.get(_SUBMIT_ARGS)
    os.environ[_SUBMIT_ARGS] = f"{shlex.join(options)} {given or 'pyspark-shell'}"
    try:
        yield
    finally:
        if given is None:
            del os.environ[_SUBMIT_ARGS]
        else:
            os.environ[_SUBMIT_ARGS] = given


def compiled(source: str, name: str) -> Any:
    """An object of the Java class of this name, which is compiled from ``source`` in the JVM, by the compiler that
    Spark ships for the code that it generates.
    """
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    assert jvm is not None  # it has been started
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(source)
    return compiler.getClassLoader().loadClass(name).newInstance()


def jvm_process() -> Popen[bytes] | None:
    """The JVM that PySpark has started for this process; None if there is none, or if somebody else has started it."""
    from pyspark import SparkContext

    process: Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    return process


def stop_application() -> None:
    """Stop the application of this process, if there is one, and forget it."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        with contextlib.suppress(Py4JError, OSError):  # it has ended already
            context.stop()
    forget_application()


def forget_application() -> None:
    """Make PySpark start a new application next time, and a new JVM if this one has ended: it would use the old ones
    for ever. A JVM of this process that does not stop its context is ended.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    process = jvm_process()
    if process is None:
        _await_stop()
    else:
        if process.poll() is None and not _await_stop():
            end_jvm(process)
        if process.poll() is not None:
            _forget_gateway(process)
    with SparkContext._lock:
        SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        SparkSession._activeSession = None


def _await_stop() -> bool:
    """Wait until the JVM's context has really stopped. It reports this too early, and until then the JVM refuses
    another context (``SparkContext.assertNoOtherContextIsRunning``).

    :return: whether it has; not if the JVM does not answer
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    if SparkContext._jvm is None:
        return True
    deadline = time.monotonic() + _STOP_S
    try:
        companion = getattr(getattr(SparkContext._jvm.org.apache.spark, "SparkContext$"), "MODULE$")
        while companion.getActive().isDefined():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
    except (Py4JError, OSError):
        return False
    return True


def _forget_gateway(process: Popen[bytes]) -> None:
    from pyspark import SparkContext

    if process.stdin is not None:
        process.stdin.close()
    gateway = SparkContext._gateway
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
    with SparkContext._lock:
        SparkContext._gateway = None
        SparkContext._jvm = None


def take_off_listener_bus(session: SparkSession, query: StreamingQuery | None) -> None:
    """Remove the listener of the session's query manager from the bus that all sessions share. Spark adds it with the
    first use of the manager (``StreamingQueryManager.listenerBus``), and never removes it.

    :param query: a query whose session may be another one
    """
    bus = session.sparkContext._jsc.sc().listenerBus()
    for java_session in [session._jsparkSession] + ([] if query is None else [query._jsq.sparkSession()]):
        manager = java_session.streams()
        listener = manager.getClass().getDeclaredField("listenerBus")
        listener.setAccessible(True)
        bus.removeListener(listener.get(manager))


def add_python_archive(context: SparkContext, archive: Path) -> None:
    """The same as ``addPyFile``, but only for the executors: ``addPyFile`` also changes this process's import path."""
    context.addFile(str(archive))
    includes = context._python_includes
    if includes is not None:
        includes.append(archive.name)


def refuse_stop(session: SparkSession) -> None:
    """Make ``session.stop()`` only log a warning: it would stop Spark for all other tasks, too."""

    def stop() -> None:
        log.warning(
            "A task called stop() on its Spark session: ignored, because its worker's other tasks use that Spark"
        )

    session.stop = stop  # type: ignore[method-assign]  # of one session only
