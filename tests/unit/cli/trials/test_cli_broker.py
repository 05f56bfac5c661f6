"""``cospark broker`` where it can't start, ends or is interrupted; ``tests/integration`` starts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider.cli.main import main
from airflow_provider.servers.local_broker import LocalBroker, _cluster_id
from airflow_provider.servers.spark_connect import LocalConnectServer


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_there_cannot_be_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--port", port]) == 2
    assert capsys.readouterr().err == f"cospark broker: --port {port}: must be from 0 (a free one) to 65535\n"


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider.servers.local_broker.LocalBroker._prepare", lambda _broker: (["java"], ""))
    monkeypatch.setattr("signal.signal", lambda _signal, _handler: None)
    file = tmp_path / "file"
    file.touch()
    assert main(["broker", "--data", str(file / "data")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("cospark broker: ")
    assert str(file / "data") in told


@pytest.mark.parametrize(
    ("last", "how"), [("exit 3", "has ended with status 3"), ("kill -9 $$", "was ended by SIGKILL")]
)
def test_of_a_server_that_ends_it_is_told_how_and_the_end_of_its_log_which_goes_with_it(
    last: str, how: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(server: LocalConnectServer) -> None:
        script = f"echo INFO started; echo FATAL no space left on device; {last}"
        server._run(["sh", "-c", script], lambda log: "FATAL" in log, sign="its end", limit_s=30)

    monkeypatch.setattr(LocalConnectServer, "start", start)
    monkeypatch.setattr("signal.signal", lambda _signal, _handler: None)
    assert main(["spark-connect"]) == 1
    told = capsys.readouterr().err
    end = "INFO started\nFATAL no space left on device\n"
    assert told == f"cospark spark-connect: the server {how}. Its log ends with:\n{end}"


@pytest.mark.parametrize(
    ("command", "server", "name"),
    [("broker", LocalBroker, "the broker"), ("spark-connect", LocalConnectServer, "the server")],
)
def test_of_a_start_that_takes_too_long_it_is_told_what_was_waited_for_and_what_to_do(
    command: str,
    server: type[LocalBroker | LocalConnectServer],
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(slow: LocalBroker | LocalConnectServer) -> None:
        slow._run(["sleep", "600"], lambda _log: False, sign="a sign", limit_s=slow._start_timeout_s)

    monkeypatch.setattr(server, "start", start)
    monkeypatch.setattr("signal.signal", lambda _signal, _handler: None)
    assert main([command, "--start-timeout", "0.1"]) == 2
    late, *log, hint = capsys.readouterr().err.splitlines()
    assert late == f"cospark {command}: {name} has not started: waited 0.1 s for a sign. Its log ends with:"
    assert log == ["(it printed nothing)"]
    assert hint.startswith(f"cospark {command}: ")
    assert "--start-timeout" in hint


@pytest.mark.parametrize("name", ["address", "port"])
def test_what_would_move_a_spark_connect_server_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    setting = f"spark.connect.grpc.binding.{name}"
    assert main(["spark-connect", "--spark-conf", f"{setting}=0.0.0.0"]) == 2
    told = f"--spark-conf {setting}: the server listens on localhost only; --port sets its port"
    assert capsys.readouterr().err == f"cospark spark-connect: {told}\n"


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


def test_no_id_of_a_cluster_looks_like_an_option() -> None:
    ids = [_cluster_id() for _ in range(5_000)]
    assert not [one for one in ids if one.startswith("-")]
    assert len(set(ids)) == len(ids)


def test_nothing_of_a_spark_connect_server_listens_beyond_this_machine(tmp_path: Path) -> None:
    conf = {"spark.driver.bindAddress": "0.0.0.0", "spark.driver.host": "here.example", "spark.ui.enabled": "true"}
    server = LocalConnectServer(conf=conf)
    command = server._command(tmp_path)
    settings = Path(command[command.index("--properties-file") + 1]).read_text()
    assert "0.0.0.0" not in settings
    assert "here.example" not in settings
    assert "spark.ui.enabled false" in " ".join(settings.replace("=", " ").split())
