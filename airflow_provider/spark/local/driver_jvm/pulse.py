"""Asks the Spark of this process whether it can run anything.

There are three answers. The third is none: a JVM can run on while its gateway is closed, by a task or by a fault. It
then runs what it has begun, and nobody can stop that, except by ending the JVM.
"""

from __future__ import annotations

import time
from enum import Enum, auto
from subprocess import Popen, TimeoutExpired
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ASKS: Final = 3
_END_S: Final = 2.0
"""How long after a broken connection to the JVM to wait for the JVM's own end, before it is asked again."""
_TERM_S: Final = 5.0
"""How long a JVM that is told to end may take to clean up."""


class Pulse(Enum):
    """What a Spark application answers."""

    BEATS = auto()
    GONE = auto()
    """Its JVM has ended, or somebody has stopped its context."""
    SILENT = auto()
    """Its gateway does not answer, although it was asked more than once and its JVM has not ended."""


def pulse_of(session: SparkSession, jvm: Popen[bytes] | None) -> Pulse:
    """Ask the session's application. This waits for some seconds if there is no answer.

    :param jvm: the JVM that this process has started for it; None: somebody else has started it
    """
    from py4j.protocol import Py4JError

    for _ in range(_ASKS):
        if jvm is not None and jvm.poll() is not None:
            return Pulse.GONE
        context = session.sparkContext._jsc  # noqa: SLF001
        try:
            return Pulse.GONE if context is None or context.sc().isStopped() else Pulse.BEATS
        except (Py4JError, OSError):
            if jvm is None:
                time.sleep(_END_S)
            elif ends_soon(jvm):
                return Pulse.GONE
    return Pulse.SILENT


def ends_soon(jvm: Popen[bytes]) -> bool:
    """Whether a JVM that no longer answers ends soon. This waits for a while."""
    return _ends_within(jvm, _END_S)


def end_jvm(jvm: Popen[bytes]) -> None:
    """End a JVM of this process that can't be told anything. It is over when this returns."""
    jvm.terminate()
    if not _ends_within(jvm, _TERM_S):
        jvm.kill()
        jvm.wait()


def _ends_within(jvm: Popen[bytes], limit_s: float) -> bool:
    try:
        jvm.wait(limit_s)
    except TimeoutExpired:
        return False
    return True
