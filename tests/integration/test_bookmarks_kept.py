"""A watcher's bookmark on a real broker, which is killed and comes back without its data."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from topic_bench import settings_of
from waiting import DEADLINE_S

from airflow_provider.kafka.group_requests.transport import GroupTransport
from airflow_provider.kafka.topics.errors import PassingError
from airflow_provider.kafka.topics.rights import WORKER
from airflow_provider.kafka.topics.topic_writer import GroupTopics
from airflow_provider.servers.local_broker import LocalBroker
from airflow_provider.triggers.asset_watchers import bookmarks
from airflow_provider.triggers.asset_watchers.bookmarks import Bookmark


@pytest.mark.thorough
async def test_a_bookmark_is_kept_by_its_broker_and_one_that_is_lost_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalBroker(data=tmp_path / "broker", start_timeout_s=DEADLINE_S) as broker:
        settings = settings_of(broker.bootstrap_servers)
        async with GroupTopics(settings, "g", WORKER) as topics, GroupTransport(settings) as transport:
            bookmark = Bookmark(transport, "g.watcher.w", topics.names.events)
            monkeypatch.setattr(bookmarks, "_PATIENCE_S", DEADLINE_S)
            assert await bookmark.read() is None
            await bookmark.put(7)
            assert await bookmark.read() == 7
            await asyncio.to_thread(broker.kill)
            with monkeypatch.context() as hasty:
                hasty.setattr(bookmarks, "_PATIENCE_S", 0.0)
                with pytest.raises(PassingError, match="can't be read"):
                    await bookmark.read()
            shutil.rmtree(tmp_path / "broker" / "data")
            await asyncio.to_thread(broker.start)
            assert await bookmark.read() is None
