"""A DAG that each event of two groups starts."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider.integration.told_once import told_once
from airflow_provider.triggers.group_event import GroupEventTrigger

watched = [
    Asset(
        name,
        watchers=[
            AssetWatcher(
                name=name,
                trigger=GroupEventTrigger(
                    group=f"{os.environ['COSPARK_EXAMPLE_GROUP']}.{name}",
                    events=["rebalanced", "job_finished", "task_failed"],
                    kafka_conn_id="broker",
                ),
            )
        ],
    )
    for name in ("watched_1", "watched_2")
]

with DAG("watched", schedule=watched[0] | watched[1]):

    @task(inlets=watched)
    def told(triggering_asset_events: Any = None, inlet_events: Any = None) -> list[dict[str, Any]]:
        return told_once(triggering_asset_events, inlet_events)

    told()
