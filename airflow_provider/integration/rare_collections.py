"""Has Python's garbage collector run less often in a process that holds workers.

By default it runs after 700 new objects (Python 3.12 and older), which are those of a few steps of tasks, or the
heartbeats of a few hundred memberships. Hardly any of them is garbage that only the collector finds.
"""

from __future__ import annotations

import gc
from typing import Final

_YOUNG_OBJECTS: Final = 10_000
_YOUNG_LOOKS: Final = 4
"""After so many collections of the youngest generation, the next one is collected: 40,000 objects in about 25 ms."""


def collect_rarely() -> None:
    """Collect garbage after more new objects than Python does by itself. May be called again."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(max(young, _YOUNG_OBJECTS), min(middle, _YOUNG_LOOKS), old)
