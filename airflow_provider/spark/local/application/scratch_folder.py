"""A process's temporary folder. If the process can't remove it, the next process on this machine does.

The owner holds a lock on a file in it, which the kernel releases when the process ends in any way. Process ids would
not do: they are reused, and each container has its own.
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
        """Remove the folder. May be called more than once."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _make() -> tuple[Path, int]:
    """Try until a folder is locked: before that, another process may take it for abandoned and remove it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder / _OWNED, os.O_RDWR | os.O_CREAT, 0o600)
            if _take(lock) and folder.joinpath(_OWNED).exists():
                return folder, lock
            os.close(lock)


def _remove_abandoned(where: Path) -> None:
    for folder in where.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # it belongs to another user, or another process has just removed it
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
