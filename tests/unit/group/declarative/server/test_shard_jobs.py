"""What a shard is told by who looks at groups for it."""

from __future__ import annotations

import queue

import pytest
from waiting import DEADLINE_S

from airflow_provider.group.declarative.server import configured_tasks as jobs_module
from airflow_provider.group.declarative.server.configured_tasks import JobsFollower
from airflow_provider.group.declarative.server.migration.classic_workers import Seen
from airflow_provider.kafka.settings import KafkaSettings, SettingsError
from airflow_provider.values.group_protocol.error_codes import KafkaErrorCode

SETTINGS = KafkaSettings.from_extra({"bootstrap.servers": "broker:9092"}, conn_id="kafka")


@pytest.mark.parametrize(
    "fault", [SettingsError("kafka", "ssl.key.location", "can't be read"), RuntimeError("a fault of this program")]
)
def test_who_waits_to_join_hears_that_nobody_could_look(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks again as long as somebody waits."""

    async def look_at(settings: KafkaSettings, group: str) -> Seen:
        raise fault

    monkeypatch.setattr(jobs_module, "look_at", look_at)
    heard: queue.SimpleQueue[Seen] = queue.SimpleQueue()
    follower = JobsFollower(SETTINGS)
    try:
        follower.look("etl", heard.put)
        seen = heard.get(timeout=DEADLINE_S)
    finally:
        follower.close()
    assert (seen.group, seen.error) == ("etl", KafkaErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert repr(fault) in seen.message
