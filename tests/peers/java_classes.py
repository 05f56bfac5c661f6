"""Java Kafka Connect for these tests: its jars, our own Java sources compiled against them, and JVMs.

All tests share one class path, so that Connect is fetched once. The compiler is a jar, too: the project only requires a
Java runtime, which has no ``javac``.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from waiting import DEADLINE_S

from airflow_provider.servers.jars import default_cache, fetch_jars
from airflow_provider.servers.java import find_java
from airflow_provider.servers.local_broker import KAFKA_VERSION

CONNECT: Final = (
    f"org.apache.kafka:connect-runtime:{KAFKA_VERSION}",
    f"org.apache.kafka:connect-file:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "org.slf4j:slf4j-simple:1.7.36",
)
COMPILER: Final = "org.eclipse.jdt:ecj:3.38.0"
_KNOWN: Final = Path(__file__).with_name("jars.sha256")
_SOURCES: Final = Path(__file__).parent / "java"
_PLUGINS: Final = {"org.apache.kafka.connect.source.SourceConnector": "cospark.peer.IdleSource"}
_JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


def class_path(*artifacts: str) -> str:
    """The jars of Maven artifacts and their dependencies."""
    return os.pathsep.join(map(str, fetch_jars(*artifacts, cache=default_cache(), known=_KNOWN)))


def java_command(main: str, *arguments: str, classes: Path | None = None, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs a class of Kafka or, from the folder that :func:`compile_java` fills, one of ours.

    :raises MissingPrerequisiteError: there is no Java
    """
    own = "" if classes is None else f"{classes}{os.pathsep}"
    return [str(find_java()), *_JVM, *options, "-cp", own + class_path(*CONNECT), main, *arguments]


@contextmanager
def running_java(main: str, classes: Path, errors: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a class of ours in a process that is asked line by line and killed at the end.

    :param classes: the folder of the compiled classes; they are compiled if they have not been
    :param errors: a file for the log of Java
    :param options: of the JVM
    :raises MissingPrerequisiteError: there is no Java
    """
    compile_java(classes)
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            java_command(main, classes=classes, options=options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding="utf-8",
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def compile_java(classes: Path) -> None:
    """Compile our sources into a folder, unless that has been done.

    :raises RuntimeError: with what the compiler says
    """
    done = classes / "compiled"
    if done.exists():
        return
    compile_sources(sorted(_SOURCES.glob("*.java")), classes, against=class_path(*CONNECT))
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    for service, plugin in _PLUGINS.items():
        (services / service).write_text(f"{plugin}\n")
    done.touch()


def compile_sources(sources: Iterable[Path], classes: Path, *, against: str) -> None:
    """Compile Java sources into a folder.

    :param against: the class path
    :raises MissingPrerequisiteError: there is no Java
    :raises RuntimeError: with what the compiler says
    """
    command: list[str | Path] = [
        *(find_java(), "-cp", class_path(COMPILER), "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn"),
        *("-proc:none", "-cp", against, "-d", str(classes), *map(str, sources)),
    ]
    compiled = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if compiled.returncode != 0:
        raise RuntimeError(f"our Java sources do not compile:\n{compiled.stderr}")
