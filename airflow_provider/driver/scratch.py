"""A process's temporary folder, which the next process on this machine removes if this one could not.

The owner holds a lock on a file in it. The kernel lets go of that when the process ends, however it ends, and it knows
nothing of process numbers: those are used again, and each container has its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_PREFIX: Final = "cospark-spark-"
_OWNED: Final = ".owned"


class ScratchFolder:
    """A new folder that only this user can read. Those that processes of this user left behind are removed first.

    :raises OSError: if it can't be made
    """

    def __init__(self) -> None:
        _remove_abandoned(Path(tempfile.gettempdir()))
        self.path, self._lock = _make()

    def remove(self) -> None:
        """May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _make() -> tuple[Path, int]:
    """Another process may look at a folder that is not locked yet, take it for abandoned, and remove it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder / _OWNED, os.O_RDWR | os.O_CREAT, 0o600)
            if _take(lock) and folder.joinpath(_OWNED).exists():
                return folder, lock
            os.close(lock)


def _remove_abandoned(where: Path) -> None:
    for folder in where.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else's, or just removed by another
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            lock = os.open(folder / _OWNED, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if _take(lock):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
