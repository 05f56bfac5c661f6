"""Java Kafka Connect's own classes as the referee: one Java process, asked line by line.

What it answers is in ``java/Referee.java``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from java_classes import running_java

_MAIN: Final = "org.apache.kafka.connect.runtime.distributed.Referee"
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

    def reconcile(self, step: dict[str, Any]) -> dict[str, Any]:
        """Where Kafka's own group coordinator takes a member of a consumer group in one step.

        :param step: as ``cospark reconcile`` reads it; a job is a topic, a task a partition of it
        :return: as ``cospark reconcile`` writes it, tasks in any order
        """
        return self._ask({"op": "reconcile", **step})

    def encode_message(self, schema: Any, value: dict[str, Any], *, unknown: tuple[int, bytes] | None = None) -> bytes:
        """What Kafka's own types write for a message.

        :param schema: one of ``connect_schemas.json``
        :param value: as ``cospark decode`` writes it
        :param unknown: a tagged field that no schema has, to be written into each struct: its tag and its bytes
        """
        question = {"op": "encode_message", "schema": schema, "value": value}
        if unknown is not None:
            question["unknown"] = {"tag": unknown[0], "hex": unknown[1].hex()}
        return bytes.fromhex(self._ask(question)["hex"])

    def decode_message(self, schema: Any, data: bytes) -> dict[str, Any]:
        """What Kafka's own types read of a message.

        :raises RefusedByJavaError: with what Java says
        """
        answer = self._ask({"op": "decode_message", "schema": schema, "hex": data.hex()})
        if "malformed" in answer:
            raise RefusedByJavaError(answer["malformed"])
        value: dict[str, Any] = answer["value"]
        return value

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
    errors = folder / "stderr"
    with running_java(_MAIN, folder, errors, "-Xmx256m") as process:
        yield Referee(process, errors)
