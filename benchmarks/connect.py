"""Java Kafka Connect as the peer: its jars, and our own Java classes that call it, run with Connect's JVM settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from airflow_provider.kafka.jars import default_cache, fetch_jars
from airflow_provider.kafka.java import find_java
from airflow_provider.kafka.local import KAFKA_VERSION

_CONNECT: Final = (f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")
# A compiler in a jar: a Java runtime is all that the project asks for, and that has no javac.
_COMPILER: Final = "org.eclipse.jdt:ecj:3.38.0"
_SOURCES: Final = Path(__file__).parent / "java"
_JVM: Final = ("-server", "-Xms256m", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""As ``connect-distributed.sh`` starts it."""


def compiled(name: str, classes: Path) -> list[str]:
    """Compile ``java/NAME.java`` into a folder.

    :return: the command that runs it
    :raises MissingPrerequisiteError: there is no Java
    :raises RuntimeError: with what the compiler says
    """
    java = str(find_java())
    connect = os.pathsep.join(map(str, fetch_jars(*_CONNECT, cache=default_cache())))
    compiler = os.pathsep.join(map(str, fetch_jars(_COMPILER, cache=default_cache())))
    done = subprocess.run(
        [
            *(java, "-cp", compiler, "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn", "-proc:none"),
            *("-cp", connect, "-d", str(classes), str(_SOURCES / f"{name}.java")),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{name}.java does not compile:\n{done.stderr}")
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    main = f"org.apache.kafka.connect.runtime.distributed.{name}"
    return [java, *_JVM, logging, "-cp", f"{classes}{os.pathsep}{connect}", main]
