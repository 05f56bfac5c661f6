"""What a JVM prints on stderr in the log of its process; any program will do for a JVM."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import textwrap
import threading

import psutil
import pytest
from waiting import DEADLINE_S

from airflow_provider.spark.local.driver_jvm import jvm_log
from airflow_provider.spark.local.driver_jvm.jvm_log import JvmLog, Levels


@pytest.mark.parametrize(
    ("line", "level", "message"),
    [
        (
            "26/11/22 13:15:57 WARN NativeCodeLoader: Unable to load",
            logging.WARNING,
            "NativeCodeLoader: Unable to load",
        ),
        ("26/11/22 13:15:57 ERROR Executor: Exception in task", logging.ERROR, "Executor: Exception in task"),
        ("2026-11-22T13:15:57.123Z INFO SparkContext: Running", logging.INFO, "SparkContext: Running"),
        ("2026-11-22 13:15:57,123 FATAL Master: gone", logging.CRITICAL, "Master: gone"),
        ('{"ts":"2026","level":"DEBUG","msg":"a"}', logging.DEBUG, '{"ts":"2026","level":"DEBUG","msg":"a"}'),
        ('Setting default log level to "WARN".', logging.DEBUG, None),
        (
            "To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).",
            logging.DEBUG,
            None,
        ),
        ("Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties", logging.DEBUG, None),
        ("WARNING: Using incubator modules: jdk.incubator.vector", logging.DEBUG, None),
        ("a job's own print: 12 ERROR", logging.INFO, None),
    ],
)
def test_a_line_has_the_level_that_it_has_in_the_jvm(line: str, level: int, message: str | None) -> None:
    assert Levels().of(line) == (level, message or line)


def test_a_stack_trace_has_the_level_of_the_line_that_it_explains_and_is_short() -> None:
    levels = Levels()
    trace = [
        "java.io.FileNotFoundException: File /nowhere does not exist",
        *["\tat org.apache.spark.A.b(A.scala:1)"] * 10,
        "Caused by: x.Y: z",
        "\t... 3 more",
        "\tSuppressed: x.Y",
    ]
    assert levels.of("26/11/22 13:15:57 ERROR Executor: Exception in task")[0] == logging.ERROR
    assert {levels.of(line)[0] for line in trace} == {logging.ERROR}
    assert levels.of("what a UDF prints")[0] == logging.INFO
    frames = [levels.of("\tat java.lang.Thread.run(Thread.java:840)")[0] for _ in range(12)]
    assert frames == [logging.ERROR] * 10 + [logging.DEBUG] * 2


def run(code: str) -> JvmLog:
    with JvmLog() as stderr:
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stderr=stderr.writing)
    assert process.wait(DEADLINE_S) == 0
    return stderr


def test_all_that_is_printed_is_logged_and_the_threads_end_with_the_program(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    stderr = run(
        """
        import sys
        sys.stderr.buffer.write("26/11/22 13:15:57 WARN A: ä\\n\\n".encode() + b"no utf-8: \\xff\\nno end of line")
        """
    )
    stderr.join(DEADLINE_S)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "A: ä"),
        ("INFO", "no utf-8: \ufffd"),
        ("INFO", "no end of line"),
    ]
    assert not [thread for thread in stderr._threads if thread.is_alive()]


def test_the_program_never_waits_for_whoever_writes_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jvm_log, "_MOST_WAITING", 10)
    released = threading.Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            released.wait(DEADLINE_S)

    slow = Slow()
    jvm_log.log.addHandler(slow)
    try:
        stderr = run("import sys; sys.stderr.write(('x' * 999 + '\\n') * 2_000)")
        released.set()
        stderr.join(DEADLINE_S)
    finally:
        released.set()
        jvm_log.log.removeHandler(slow)
    assert "more lines of Spark's JVM came too fast to be logged" in caplog.text


@pytest.mark.slow
def test_a_child_that_outlives_its_killed_owner_keeps_no_program_waiting() -> None:
    """What a JVM says at its end would wait for a reader for ever."""
    owner = """
        import os, subprocess, sys, time
        from airflow_provider.spark.local.driver_jvm.jvm_log import JvmLog
        with JvmLog() as stderr:
            writer = "import sys; sys.stdin.read(); sys.stderr.write('x' * 1_000_000)"
            program = subprocess.Popen([sys.executable, "-c", writer], stdin=subprocess.PIPE, stderr=stderr.writing)
        forked = os.fork()
        if not forked:
            program.stdin.close()
            os.close(1)
            time.sleep(60)
        print(program.pid, forked, flush=True)
        os.close(1)
        time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(owner)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        program, forked = (psutil.Process(int(pid)) for pid in process.stdout.readline().split())
        process.kill()
    try:
        program.wait(DEADLINE_S)
    finally:
        for each in (program, forked):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
