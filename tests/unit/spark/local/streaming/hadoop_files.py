"""Hadoop's file system as a Spark session hands it out, over a folder: what copies of checkpoints need of it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class HadoopPath:
    path: Path

    def getFileSystem(self, _conf: object) -> Files:  # noqa: N802
        return Files()

    def getParent(self) -> HadoopPath:  # noqa: N802
        return HadoopPath(self.path.parent)

    def getName(self) -> str:  # noqa: N802
        return self.path.name

    def toString(self) -> str:  # noqa: N802
        return str(self.path)


@dataclass(frozen=True)
class Status:
    path: Path

    def getPath(self) -> HadoopPath:  # noqa: N802
        return HadoopPath(self.path)

    def isDirectory(self) -> bool:  # noqa: N802
        return self.path.is_dir()

    def getModificationTime(self) -> int:  # noqa: N802
        return int(self.path.stat().st_mtime * 1000)


@dataclass
class Output:
    path: Path

    def writeBytes(self, text: str) -> None:  # noqa: N802
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(text)

    def close(self) -> None: ...


class Files:
    """Methods of ``FileSystem``."""

    def makeQualified(self, path: HadoopPath) -> HadoopPath:  # noqa: N802
        return path

    def deleteOnExit(self, path: HadoopPath) -> bool:  # noqa: N802
        """A process that is killed does not. Of what does not exist, nothing is remembered."""
        assert path.path.exists()
        return True

    def listStatus(self, path: HadoopPath) -> list[Status]:  # noqa: N802
        return [Status(entry) for entry in sorted(path.path.iterdir())]

    def getFileStatus(self, path: HadoopPath) -> Status:  # noqa: N802
        return Status(path.path)

    def globStatus(self, path: HadoopPath) -> list[Status]:  # noqa: N802
        return [Status(entry) for entry in sorted(path.path.parent.glob(path.path.name))]

    def create(self, path: HadoopPath) -> Output:
        return Output(path.path)

    def delete(self, path: HadoopPath, _recursive: bool) -> bool:
        if path.path.is_dir():
            shutil.rmtree(path.path)
        else:
            path.path.unlink()
        return True


def _path(*parts: HadoopPath | str) -> HadoopPath:
    return HadoopPath(Path(*(part.path if isinstance(part, HadoopPath) else part for part in parts)))


def _copy(_from: Files, source: HadoopPath, _to: Files, target: HadoopPath, *_: object) -> None:
    target.path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.path, target.path)


def session_with_files() -> Any:
    """In place of a ``SparkSession``."""
    fs = SimpleNamespace(Path=_path, FileUtil=SimpleNamespace(copy=_copy))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=fs))))
    state = SimpleNamespace(newHadoopConf=lambda: None)
    return SimpleNamespace(_jvm=jvm, _jsparkSession=SimpleNamespace(sessionState=lambda: state))


def make_older(path: Path, ms: int) -> None:
    """As if it had been written so much earlier."""
    seconds = path.stat().st_mtime - ms / 1000
    os.utime(path, (seconds, seconds))
