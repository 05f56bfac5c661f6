"""What is sent to a Spark Connect server for many sessions of the same job."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE_S

from airflow_provider.spark.connect import shipping
from airflow_provider.spark.connect.shipping import Parcels
from airflow_provider.spark.local import shipping as local_shipping
from airflow_provider.spark.local.sources import Source, sources_of

HELP = "parcel_help"


class Session:
    """Keeps the names of what it is sent, without the digest of the content.

    :param collides: how often another thread invalidates Python's import caches at the same time
    :param together: waits for other sessions that are sent something
    """

    def __init__(self, *, collides: int = 0, together: threading.Barrier | None = None) -> None:
        self.sent: set[str] = set()
        self._collides = collides
        self._together = together

    def addArtifacts(self, *archives: str, pyfile: bool) -> None:  # noqa: N802 - PySpark's
        assert pyfile
        sys.path.insert(1, archives[0])
        if self._together is not None:
            self._together.wait(DEADLINE_S)
        if self._collides:
            self._collides -= 1
            raise KeyError(archives[0])
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


def test_what_the_tasks_of_a_job_import_is_looked_for_once(
    looks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each of a thousand tasks: each would wait until all others have parsed these files."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / f"{HELP}.py").touch()
    (tmp_path / "parcel_job.py").write_text(f"import sys\nsys.path.append({str(tmp_path / 'late')!r})\nimport {HELP}")
    importlib.import_module("parcel_job")
    parcels, sessions = Parcels(), [Session() for _ in range(3)]
    for session in sessions:
        send(parcels, session, "parcel_job")
    assert [session.sent for session in sessions] == [{"airflow_provider", "parcel_job", HELP}] * 3
    assert looks == ["parcel_job"]
    parcels.close()


def test_what_cannot_be_packed_for_a_moment_is_sent_to_the_next_session(
    looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_source: object, _folder: Path) -> Path:
        raise OSError(28, "No space left on device")

    parcels, sessions = Parcels(), [Session() for _ in range(3)]
    with monkeypatch.context() as for_a_moment:
        for_a_moment.setattr(local_shipping, "_archive", full)
        send(parcels, sessions[0])
    for session in sessions[1:]:
        send(parcels, session)
    assert sessions[0].sent == set()
    assert {"airflow_provider", __name__} <= sessions[1].sent
    assert sessions[2].sent == sessions[1].sent
    assert looks == [__name__] * 2
    parcels.close()


def send(parcels: Parcels, session: Any, module: str = __name__) -> None:
    parcels.send(session, module)


def test_sessions_do_not_wait_until_others_have_been_sent_theirs() -> None:
    """The server takes a while for each: of a thousand that wait for each other most don't begin for minutes."""
    parcels, together = Parcels(), threading.Barrier(2)
    sessions: list[Any] = [Session(together=together) for _ in range(2)]
    path = list(sys.path)
    threads = [threading.Thread(target=parcels.send, args=(each, __name__)) for each in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert all({"airflow_provider", __name__} <= session.sent for session in sessions)
    assert sys.path == path
    parcels.close()


def test_a_session_is_sent_its_modules_again_if_another_thread_was_in_pysparks_way() -> None:
    """Two threads can't invalidate import caches at the same time."""
    parcels, session = Parcels(), Session(collides=2)
    send(parcels, session)
    assert session.sent
    parcels.close()


def test_what_could_not_be_sent_does_not_stay_on_the_import_path() -> None:
    """A thousand tasks whose server ends meanwhile would each leave something there."""
    parcels, path = Parcels(), list(sys.path)
    with pytest.raises(KeyError):
        send(parcels, Session(collides=1_000))
    assert sys.path == path
    parcels.close()
