"""The lease of this process's tasks, inside its JVM: when it is over and a task has not ended, the JVM ends itself.

Tasks check their lease in Python, but Spark knows nothing of it: a stream into one of Spark's own sinks commits batches
as long as its JVM runs. If Python alone stands still (somebody has suspended it, or a regular expression holds the
interpreter), it can't stop that stream, and meanwhile another worker starts the same task. So a thread of the JVM
counts down, and Python tells it again and again how much is left of the lease.

Theory of operation
===================

The watch in the JVM *rests* while no task runs: a worker that has stopped all its tasks in time, because no broker
answered, keeps its Spark. Before a task's code is called, and twice a second while one runs, Python *renews* the watch.
If it has not by the end that the watch knows, the watch halts the JVM, without any clean-up that could take time.
Whatever needs Spark then finds that it has ended, and starts it anew. A lease that is over stays over, however late the
thread or the next renewal comes to see that.

The watch is in the JVM and not in a process beside it, because it must also act if everything was suspended: it wakes
up in the process that would commit, and needs nobody else to be awake. Spark itself ships a compiler for it
(:func:`~airflow_provider.spark.local.pyspark_internals.compiled`).

Time. The two processes share no clock: what is left is told. The JVM's clock is read first, and then how much is left.
So the end in the JVM is never later than Python's, and earlier by the time between the two at most; and a renewal that
was under way during a suspension is worth no more afterwards. The watch's clock is the kernel's time since boot,
because Java's own stands still while the host is suspended. On other systems than Linux there is only Java's.

If the coordinator has ended a lease before its time, nobody knows when others start the tasks. These have been told to
stop, and have as long for that as before the regular end of a lease.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from subprocess import Popen
from time import monotonic
from typing import Final, Protocol, TypeAlias, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")

ENDED_BY_LEASE: Final = 75
"""The exit code of a JVM that has ended itself: that of a temporary failure, in ``sysexits.h``."""

WATCH: Final = "LeaseWatch"
"""The class of the watch, in a file of this name."""

_LOOK_S: Final = 0.5
_GRACE_S: Final = 2.0
_NS: Final = 1_000_000_000

LeaseLeft: TypeAlias = Callable[[], float | None]
"""How much is left of the lease under which tasks of one user of Spark run, in seconds; at most 0: it is over. None: no
task runs. Any thread may ask.
"""


def no_task_runs() -> None:
    """The user of Spark has no tasks."""


class Watch(Protocol):
    """The object in the JVM. Times are in nanoseconds by its clock."""

    def now(self) -> int: ...

    def renew(self, until: int) -> None: ...

    def rest(self) -> None: ...


def next_end(now: int, left_s: float | None, told: int | None) -> int | None:
    """When the JVM is to end if it hears nothing more, by its clock; None: it is not to.

    :param left_s: how much is left of the lease; None: there is none
    :param told: what it was told before
    """
    if left_s is None:
        return None
    if left_s > 0:
        return now + round(left_s * _NS)
    grace = now + round(_GRACE_S * _NS)
    return grace if told is None else min(told, grace)


class JvmLease:
    """Keeps the watch in one JVM wound up, until it is closed or the JVM has ended. Any thread may call it.

    :param leases_left: what is left of the lease of each user of the JVM (:data:`LeaseLeft`)
    """

    def __init__(self, jvm: Popen[bytes], watch: Watch, leases_left: Callable[[], Iterable[float | None]]) -> None:
        self._jvm = jvm
        self._watch = watch
        self._leases_left = leases_left
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._told: int | None = None
        self._told_left_s = 0.0
        self._asked_at: float | None = None
        self._silent_s = 0.0
        threading.Thread(target=self._keep, name="jvm-lease", daemon=True).start()

    def renew(self) -> None:
        """Tell the JVM how much is left of the lease; it has heard it when this returns.

        :raises Exception: if the JVM does not answer, or has ended
        """
        with self._lock:
            if self._closed.is_set() or (self._told is None and self._left_s() is None):
                return
            now = self._ask(self._watch.now)
            left_s = self._left_s()
            until = next_end(now, left_s, self._told)
            self._ask(self._watch.rest if until is None else partial(self._watch.renew, until))
            self._told, self._told_left_s, self._silent_s = until, left_s or 0.0, 0.0

    def _ask(self, call: Callable[[], T]) -> T:
        """Each call is timed by itself: if this process was suspended during one, the answer is there when it goes on,
        and the next call fails at once.
        """
        self._asked_at = monotonic()
        try:
            return call()
        except BaseException:
            self._silent_s = max(self._silent_s, self._has_waited_s())
            raise
        finally:
            self._asked_at = None

    def _has_waited_s(self) -> float:
        """For how long the call that is under way has had no answer."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else monotonic() - asked_at

    def _left_s(self) -> float | None:
        """What is left of the lease that ends first; None: there is none that ends."""
        return min((left for left in self._leases_left() if left is not None and left < math.inf), default=None)

    def why_over(self) -> str:
        """Why the JVM has ended itself. If Python did not stand still, it has seen the lease run out, or the JVM has
        left it without an answer.
        """
        if self._told_left_s <= 2 * _LOOK_S:
            return "a task still ran when this worker's lease was over"
        silent_s = max(self._silent_s, self._has_waited_s())
        if silent_s > self._told_left_s / 2:
            return (
                f"it had not answered for {silent_s:.1f} s, so this worker could not renew its lease (was the JVM"
                " suspended, or the machine overloaded?)"
            )
        return (
            f"this worker had not renewed its lease for {self._told_left_s:.1f} s (was its process suspended, or did a"
            " task hold the interpreter?)"
        )

    def close(self) -> None:
        """Nothing can run in the JVM any more that needs a lease."""
        from py4j.protocol import Py4JError

        self._closed.set()
        with self._lock, contextlib.suppress(Py4JError, OSError):
            self._watch.rest()

    def _keep(self) -> None:
        from py4j.protocol import Py4JError

        while not self._closed.wait(_LOOK_S) and self._jvm.poll() is None:
            try:
                self.renew()
            except (Py4JError, OSError) as silent:
                log.debug("This worker's lease was not renewed in its JVM", exc_info=silent)
        if self._jvm.poll() == ENDED_BY_LEASE:
            log.warning("Spark's JVM has ended itself, because %s", self.why_over())


def watch_source() -> str:
    """The Java source of the watch."""
    return Path(__file__).with_name(f"{WATCH}.java").read_text(encoding="utf-8")
