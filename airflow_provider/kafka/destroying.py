"""Destroys clients of librdkafka in threads of their own.

To destroy a client is to wait for its threads, of which one may look for a broker's name until DNS gives up: an event
loop would stand still.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from typing import Final

_EXIT_S: Final = 1.0
"""How long the process waits at its end for clients that are being destroyed."""
_THREAD: Final = "cospark-discarded-client"


def destroy_apart(destroy: Callable[[], None]) -> bool:
    """Let a thread of its own destroy a client, without waiting for that.

    :returns: False: there can be no more threads, perhaps because the process ends. Then the client goes with its user
    """
    try:
        threading.Thread(target=destroy, name=_THREAD, daemon=True).start()
    except RuntimeError:
        return False
    return True


def _finish() -> None:
    """Wait for clients that are being destroyed, but not for one that hangs."""
    until = time.monotonic() + _EXIT_S
    for thread in threading.enumerate():
        if thread.name == _THREAD:
            thread.join(max(0.0, until - time.monotonic()))


atexit.register(_finish)
