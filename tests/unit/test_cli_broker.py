"""``cospark broker`` where it can't start or is interrupted; ``tests/integration`` starts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider.broker.local_broker import LocalBroker
from airflow_provider.cli.main import main


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_there_cannot_be_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--port", port]) == 2
    assert capsys.readouterr().err == f"cospark broker: --port {port}: must be from 0 (a free one) to 65535\n"


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.broker.local_broker.LocalBroker._prepare", lambda _broker: (["java"], ""))
    monkeypatch.setattr("signal.signal", lambda _signal, _handler: None)
    file = tmp_path / "file"
    file.touch()
    assert main(["broker", "--data", str(file / "data")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("cospark broker: ")
    assert str(file / "data") in told


def test_of_a_broker_that_ends_by_itself_the_end_of_its_log_is_told_for_the_log_goes_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(broker: LocalBroker) -> None:
        broker.log_path.write_text("INFO started\nFATAL no space left on device\n")

    monkeypatch.setattr("airflow_provider.broker.local_broker.LocalBroker.start", start)
    monkeypatch.setattr("signal.signal", lambda _signal, _handler: None)
    assert main(["broker"]) == 1
    told = capsys.readouterr().err
    assert told == "cospark broker: the broker has ended:\nINFO started\nFATAL no space left on device\n"


class Interrupted:
    """A broker that takes its time to end, until somebody has enough of that."""

    killed = False

    def terminate(self) -> None: ...

    def wait(self, timeout_s: float | None = None) -> None:
        if timeout_s is not None:
            raise KeyboardInterrupt

    def kill(self) -> None:
        self.killed = True


def test_a_second_interruption_ends_the_broker_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    process: Any = Interrupted()
    broker = LocalBroker(cache=tmp_path)
    broker._process = process
    assert broker.log_path.parent.exists()
    with pytest.raises(KeyboardInterrupt):
        broker.close()
    assert process.killed
    assert not broker.log_path.parent.exists()
