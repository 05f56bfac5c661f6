"""Pauses between tries, which grow up to a limit."""

from __future__ import annotations

from typing import Final

_FIRST_IN_CONFLICT_MS: Final = 1_000
_LONGEST_IN_CONFLICT_MS: Final = 60_000


def doubling_ms(first_ms: int, tries: int, longest_ms: int) -> int:
    """The pause after this many tries in vain, in milliseconds: it doubles with each, up to ``longest_ms``."""
    return min(first_ms << min(max(0, tries - 1), 30), longest_ms)


def conflict_pause_ms(conflicts: int) -> int:
    """The pause of a task that waits for another writer, after this many conflicts in a row; 0: there was none."""
    return doubling_ms(_FIRST_IN_CONFLICT_MS, conflicts, _LONGEST_IN_CONFLICT_MS) if conflicts else 0
