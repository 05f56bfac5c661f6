"""Java Kafka Connect's own classes as the referee: one Java process (``java/Referee.java``), asked line by line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from java_classes import running_java
from waiting import DEADLINE_S

_MAIN: Final = "org.apache.kafka.connect.runtime.distributed.Referee"
_STDERR_SHOWN: Final = 4_000


class RefusedByJavaError(Exception):
    """Java refuses to decode these bytes."""


class Referee:
    """Values have the keys of ``cospark decode``; their tasks come in any order, so compare them as sets."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors

    def decode(self, kind: str, data: bytes) -> dict[str, Any]:
        """What Java reads from bytes of a ``metadata`` or an ``assignment``.

        :raises RefusedByJavaError: with Java's message
        """
        answer = self._ask({"op": "decode", "kind": kind, "hex": data.hex()})
        if "malformed" in answer:
            raise RefusedByJavaError(answer["malformed"])
        return answer

    def encode(self, kind: str, value: dict[str, Any]) -> bytes:
        """The bytes that Java writes for a value of version 0, 1 or 2."""
        return bytes.fromhex(self._ask({"op": "encode", "kind": kind, "value": value})["hex"])

    def offer(self, protocol: str, state: dict[str, Any]) -> list[tuple[str, bytes]]:
        """The names and metadata with which a Java worker with that ``connect.protocol`` joins."""
        answer = self._ask({"op": "offer", "protocol": protocol, "value": state})
        return [(name, bytes.fromhex(metadata)) for name, metadata in answer.items()]

    def replay(self, history: Iterable[dict[str, Any]], *, max_delay_ms: int) -> Iterator[dict[str, Any]]:
        """The decisions of Java's cooperative assignor, round by round.

        :param history: rounds as ``cospark replay`` reads them; each is taken after the last one's answer, so a history
            can be made up on the way. A round with a ``memory`` (our leader's, as JSON) has a leader that remembers it.
        :return: ``assigned``, ``revoked`` and ``delay`` as ``cospark replay`` writes them, tasks in any order, and in
            ``remembered`` Java's memory of the deadline and revocations
        """
        self._ask({"op": "new_leader", "max_delay": max_delay_ms})
        for round_ in history:
            yield self._ask({"op": "assign", **round_})

    def reconcile(self, step: dict[str, Any]) -> dict[str, Any]:
        """The next state of a member of a consumer group by Kafka's own group coordinator.

        :param step: as ``cospark reconcile`` reads it; a job is a topic, a task one of its partitions
        :return: as ``cospark reconcile`` writes it, tasks in any order
        """
        return self._ask({"op": "reconcile", **step})

    def encode_message(self, schema: Any, value: dict[str, Any], *, unknown: tuple[int, bytes] | None = None) -> bytes:
        """The bytes that Kafka's own types write for a message.

        :param schema: one of ``connect_schemas.json``
        :param value: as ``cospark decode`` writes it
        :param unknown: the tag and bytes of a tagged field that no schema has, written into each struct
        """
        question = {"op": "encode_message", "schema": schema, "value": value}
        if unknown is not None:
            question["unknown"] = {"tag": unknown[0], "hex": unknown[1].hex()}
        return bytes.fromhex(self._ask(question)["hex"])

    def decode_message(self, schema: Any, data: bytes) -> dict[str, Any]:
        """The value that Kafka's own types read from a message.

        :raises RefusedByJavaError: with Java's message
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
            status = self._process.wait(timeout=DEADLINE_S)
            said = self._errors.read_text(errors="replace")[-_STDERR_SHOWN:]
            raise RuntimeError(f"the referee ended with status {status} at {question}:\n{said}")
        parsed: dict[str, Any] = json.loads(answer)
        return parsed


@contextmanager
def running_referee(folder: Path) -> Iterator[Referee]:
    """A referee for as long as the context lasts.

    :param folder: for the compiled classes and Java's log
    :raises MissingPrerequisiteError: there is no Java
    """
    errors = folder / "stderr"
    with running_java(_MAIN, folder, errors, "-Xmx256m") as process:
        yield Referee(process, errors)
