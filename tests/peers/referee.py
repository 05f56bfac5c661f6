"""Java Kafka Connect's own classes as the referee: one Java process, asked line by line.

What it answers is in ``java/Referee.java``. Its sources are compiled against Connect's jars, so a JDK is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from airflow_provider.kafka.jars import default_cache, fetch_jars
from airflow_provider.kafka.java import find_java

CONNECT: Final = ("org.apache.kafka:connect-runtime:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
# A compiler in a jar: a Java runtime is all that the project asks for, and that has no javac.
_COMPILER: Final = "org.eclipse.jdt:ecj:3.38.0"
_SOURCES: Final = Path(__file__).parent / "java"
_MAIN: Final = "org.apache.kafka.connect.runtime.distributed.Referee"
_JVM: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_STDERR_SHOWN: Final = 4_000


class RefusedByJavaError(Exception):
    """Java refuses to decode these bytes."""


class Referee:
    """Values have the keys of ``cospark decode``; their tasks come in any order, so they are compared as sets."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors

    def decode(self, kind: str, data: bytes) -> dict[str, Any]:
        """What Java reads from bytes of a ``metadata`` or an ``assignment``.

        :raises RefusedByJavaError: with what Java says
        """
        answer = self._ask({"op": "decode", "kind": kind, "hex": data.hex()})
        if "malformed" in answer:
            raise RefusedByJavaError(answer["malformed"])
        return answer

    def encode(self, kind: str, value: dict[str, Any]) -> bytes:
        """What Java writes for a value of version 0, 1 or 2."""
        return bytes.fromhex(self._ask({"op": "encode", "kind": kind, "value": value})["hex"])

    def offer(self, protocol: str, state: dict[str, Any]) -> list[tuple[str, bytes]]:
        """The names and metadata with which a Java worker with that ``connect.protocol`` joins."""
        answer = self._ask({"op": "offer", "protocol": protocol, "value": state})
        return [(name, bytes.fromhex(metadata)) for name, metadata in answer.items()]

    def replay(self, history: Iterable[dict[str, Any]], *, max_delay_ms: int) -> Iterator[dict[str, Any]]:
        """What Java's cooperative assignor decides, round by round.

        :param history: rounds as ``cospark replay`` reads them; each is asked for when the last one's answer has been
            taken, so a history can be made up on the way. A round with a ``memory`` (that of our leader, as JSON) has a
            leader that remembers that.
        :return: ``assigned``, ``revoked`` and ``delay`` as ``cospark replay`` writes them, tasks in any order, and what
            Java has ``remembered`` of deadline and revocations
        """
        self._ask({"op": "new_leader", "max_delay": max_delay_ms})
        for round_ in history:
            yield self._ask({"op": "assign", **round_})

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            status = self._process.wait(timeout=30)
            said = self._errors.read_text(errors="replace")[-_STDERR_SHOWN:]
            raise RuntimeError(f"the referee ended with status {status} at {question}:\n{said}")
        parsed: dict[str, Any] = json.loads(answer)
        return parsed


@contextmanager
def running_referee(folder: Path) -> Iterator[Referee]:
    """A referee for as long as the context lasts.

    :param folder: for the compiled classes and what Java logs
    :raises MissingPrerequisiteError: there is no Java
    """
    java = find_java()
    classpath = os.pathsep.join(map(str, [folder, *fetch_jars(*CONNECT, cache=default_cache())]))
    compiler = os.pathsep.join(map(str, fetch_jars(_COMPILER, cache=default_cache())))
    command = [
        *(java, "-cp", compiler, "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-nowarn", "-proc:none"),
        *("-cp", classpath, "-d", folder, *sorted(_SOURCES.glob("*.java"))),
    ]
    compiled = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if compiled.returncode != 0:
        raise RuntimeError(f"the referee does not compile:\n{compiled.stderr}")
    errors = folder / "stderr"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [java, *_JVM, "-cp", classpath, _MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding="utf-8",
        ) as process,
    ):
        try:
            yield Referee(process, errors)
        finally:
            process.kill()
