"""Java Kafka Connect as a peer: its jars, and our own Java classes that call it, run with Connect's JVM settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from airflow_provider.servers.java import find_java
from airflow_provider.servers.local_broker import KAFKA_VERSION

_HERE: Final = Path(__file__).parent
sys.path[:0] = [str(_HERE.parent / folder) for folder in ("tests", "tests/peers")]

from java_classes import class_path, compile_sources  # noqa: E402

_CONNECT: Final = (f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")
_JVM: Final = ("-server", "-Xms256m", "-Xmx2g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""The settings of ``connect-distributed.sh``."""


def compiled(name: str, classes: Path) -> list[str]:
    """Compile ``java/NAME.java`` into a folder.

    :return: the command that runs it
    :raises MissingPrerequisiteError: if there is no Java
    :raises RuntimeError: with the compiler's output
    """
    connect = class_path(*_CONNECT)
    compile_sources([_HERE / "java" / f"{name}.java"], classes, against=connect)
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    main = f"org.apache.kafka.connect.runtime.distributed.{name}"
    return [str(find_java()), *_JVM, logging, "-cp", f"{classes}{os.pathsep}{connect}", main]
