"""What is sent to a Spark Connect server for many sessions of the same job."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.spark.connect import shipping
from airflow_provider.spark.connect.shipping import Parcels
from airflow_provider.spark.local.sources import Source, sources_of

HELP = "parcel_help"


class Session:
    """Keeps the names of what it is sent, without the digest of the content."""

    def __init__(self) -> None:
        self.sent: set[str] = set()

    def addArtifacts(self, *archives: str, pyfile: bool) -> None:  # noqa: N802 - PySpark's
        assert pyfile
        self.sent |= {Path(archive).name.rpartition("-")[0] for archive in archives}


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules whose imports were looked for."""
    looks: list[str] = []

    def looked(module: str) -> Iterator[Source]:
        looks.append(module)
        return sources_of(module)

    monkeypatch.setattr(shipping, "sources_of", looked)
    return looks


def test_what_the_tasks_of_a_job_import_is_looked_for_before_and_after_their_module_is_imported(
    looks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each of a thousand tasks: each would wait until all others have parsed these files."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / f"{HELP}.py").touch()
    (tmp_path / "parcel_job.py").write_text(f"import sys\nsys.path.append({str(tmp_path / 'late')!r})\nimport {HELP}")
    parcels, sessions = Parcels(), [Session() for _ in range(3)]
    first: list[frozenset[str]] = [send(parcels, session) for session in sessions]
    assert [HELP in session.sent for session in sessions] == [False] * 3
    importlib.import_module("parcel_job")
    for session, sent in zip(sessions, first, strict=True):
        send(parcels, session, sent)
    assert [session.sent for session in sessions] == [{"airflow_provider", "parcel_job", HELP}] * 3
    assert looks == ["parcel_job"] * 2
    parcels.close()


def send(parcels: Parcels, session: Any, sent: frozenset[str] = frozenset()) -> frozenset[str]:
    return parcels.send(session, "parcel_job", sent)
