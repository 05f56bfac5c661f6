"""Which clusters the page shows, while Airflow is asked again and again what its connections say."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import DEADLINE_S

from airflow_provider.hooks.shown_connections import Connections, Named
from airflow_provider.kafka.settings import KafkaSettings, SettingsError

C = Named("c")


def settings(servers: str) -> KafkaSettings:
    return KafkaSettings.from_extra({"bootstrap.servers": servers}, conn_id="c")


class Airflow:
    """A secrets backend may take long, and a clock is turned."""

    def __init__(self) -> None:
        self.now = 0.0
        self.servers = "first:9092"
        self.answers = threading.Event()
        self.asked = threading.Semaphore(0)
        self.connections = Connections(lambda: [C], self._settings_of, lambda: self.now)
        self.answers.set()

    def _settings_of(self, _name: Named) -> KafkaSettings:
        self.asked.release()
        assert self.answers.wait(DEADLINE_S)
        return settings(self.servers)


def test_who_asks_while_another_looks_is_told_what_was_known_before() -> None:
    airflow = Airflow()
    assert airflow.connections.all() == {C: settings("first:9092")}
    assert airflow.asked.acquire(timeout=DEADLINE_S)
    airflow.now, airflow.servers = 31.0, "second:9092"
    airflow.answers.clear()
    with ThreadPoolExecutor(2) as threads:
        looking = threads.submit(airflow.connections.all)
        try:
            assert airflow.asked.acquire(timeout=DEADLINE_S)
            meanwhile = threads.submit(airflow.connections.all)
            assert meanwhile.result(DEADLINE_S) == {C: settings("first:9092")}
        finally:
            airflow.answers.set()
        assert looking.result(DEADLINE_S) == airflow.connections.all() == {C: settings("second:9092")}


def test_after_a_fault_they_are_looked_up_again() -> None:
    names = [[C], None, [Named("d")]]

    def looked_up() -> list[Named]:
        found = names.pop(0)
        if found is None:
            raise OSError("the database is away")
        return found

    now = [0.0]
    connections = Connections(looked_up, lambda name: settings(name.conn_id), lambda: now[0])
    assert list(connections.all()) == [C]
    now[0] = 31.0
    with pytest.raises(OSError, match="away"):
        connections.all()
    assert list(connections.all()) == [Named("d")]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (SettingsError("c", "bootstrap.servers", "is missing"), "connection 'c': bootstrap.servers: is missing"),
        (PermissionError("the vault denies it"), "the vault denies it"),
    ],
)
def test_one_that_can_not_be_used_is_shown_with_the_reason(wrong: Exception, words: str) -> None:
    def settings_of(name: Named) -> KafkaSettings:
        if name == C:
            raise wrong
        return settings("first:9092")

    assert Connections(lambda: [C, Named("d")], settings_of).all() == {C: words, Named("d"): settings("first:9092")}


def test_no_team_hides_anothers_by_having_many() -> None:
    many = [Named(f"a{number}", "red") for number in range(30)]
    shown = Connections(lambda: [*many, Named("z", "blue"), Named("z")], lambda name: settings(name.conn_id)).all()
    assert [str(name) for name in shown][20:] == ["z@blue", "z"]
