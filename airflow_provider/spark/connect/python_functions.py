"""Tells when a request to a server is about to carry a Python function, so that what this imports can be sent first.

Most tasks have none. Modules for each of a thousand sessions would cost the server gigabytes of its disk, and a part of
the time of their starts.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import Message

_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}".encode()
_CALLS: Final = ("AnalyzePlan", "ExecutePlan")
_COMPRESSED: Final = "compressed_operation"
"""So are very large plans, since Spark 4.2."""


def may_carry_function(request: Any) -> bool:
    """Whether a request may have a Python function in it, however deep in its plan. Each one comes with the version of
    the Python that has pickled it. If this is found in another text, or a plan is compressed, a parcel is sent in vain.
    """
    messages = [part for _, part in request.ListFields() if isinstance(part, Message)]  # the client's name is a text
    return any(_PYTHON in part.SerializeToString() or _is_compressed(part) for part in messages)


def _is_compressed(part: Any) -> bool:
    """:param part: of a request: its plan, or what is asked about a plan"""
    plan = getattr(part, "plan", part)
    return hasattr(plan, _COMPRESSED) and plan.HasField(_COMPRESSED)


class BeforeFunctions:
    """Calls ``prepare`` once, before the first request of a session that may carry a function. If it raises, so does
    the call, and the next such request tries again. Any thread may use the session.

    The calls of PySpark's stub are replaced: with an interceptor of gRPC, a call on a channel that was closed meanwhile
    crashes the process.
    """

    def __init__(self, prepare: Callable[[], None], stub: Any) -> None:
        self._prepare = prepare
        self._lock = threading.Lock()
        self._done = False
        for name in _CALLS:
            setattr(stub, name, self._prepared(getattr(stub, name)))

    def _prepared(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def prepared(request: Any, *args: Any, **more: Any) -> Any:
            if not self._done and may_carry_function(request):
                self._prepare_once()
            return call(request, *args, **more)

        return prepared

    def _prepare_once(self) -> None:
        with self._lock:
            if not self._done:
                self._prepare()
                self._done = True
