"""Java as it is found on this machine, and what makes it start faster."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MIN_JAVA: Final = 17


class MissingPrerequisiteError(RuntimeError):
    """Something that this package cannot bring along is not there; the message says how to get it."""


def find_java() -> Path:
    """A ``java`` of version 17 or newer: ``$JAVA_HOME``'s, else the first on the ``PATH``.

    :raises MissingPrerequisiteError: there is none, or it is too old
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME is {home}, but there is no bin/java in it" if home else "there is no `java` on the PATH"
        raise MissingPrerequisiteError(f"Java {MIN_JAVA} or newer is needed, and {where}. {_how_to_get_java()}")
    version = _java_version(found)
    if version < MIN_JAVA:
        raise MissingPrerequisiteError(
            f"Java {MIN_JAVA} or newer is needed, and {found} is version {version}. {_how_to_get_java()}"
        )
    return Path(found)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Loaded classes as one file that later JVMs map into memory: a broker starts in half the time (JEP 350).

    It holds for one Java and one class path; a Java that cannot use it starts as if it were not there. The first
    program that ends in order writes it.

    :param path: where it is kept
    """

    path: Path

    @classmethod
    def of(cls, java: Path, class_path: str, *, cache: Path) -> ClassArchive:
        key = f"{java.resolve()}\n{java.resolve().stat().st_mtime_ns}\n{class_path}"
        return cls(cache / "classes" / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa")

    def options(self, *, write_to: Path | None = None) -> tuple[str, ...]:
        """The JVM's options to use the archive or, while there is none, to write one to ``write_to`` at its end."""
        if self.path.exists():
            return (*_QUIET, f"-XX:SharedArchiveFile={self.path}")
        return () if write_to is None else (*_QUIET, f"-XX:ArchiveClassesAtExit={write_to}")

    def keep(self, written: Path) -> None:
        """Take over the file that a JVM has written, if it has."""
        if not written.exists():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(f".{os.getpid()}")
        shutil.move(written, partial)
        partial.replace(self.path)


# The JVM tells of each class that cannot be archived, and of an archive that is not for it.
_QUIET: Final = ("-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:disable", "-Xlog:all=error:stderr")


def _java_version(java: str) -> int:
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if version is None:
        raise MissingPrerequisiteError(f"`{java} -version` does not name a version: {answer.stderr.strip()!r}")
    return int(version[1])


def _how_to_get_java() -> str:
    install = "brew install openjdk@17" if sys.platform == "darwin" else "apt-get install openjdk-17-jre-headless"
    return f"Install one (for example `{install}`), or set JAVA_HOME to one that is installed elsewhere."
