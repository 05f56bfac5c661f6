"""DAGs that are started by what happens to a group, and not by time."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, task

from airflow_provider.integration.told_once import told_once
from airflow_provider.triggers.group_event import GroupEventTrigger

KAFKA = os.environ.get("COSPARK_EXAMPLE_CONN_ID", "kafka_default")
GROUP = os.environ.get("COSPARK_EXAMPLE_GROUP", "example") + ".on_events"

troubles = Asset(
    "troubles_of_the_example_group",
    watchers=[
        AssetWatcher(
            name="troubles",
            trigger=GroupEventTrigger(
                group=GROUP,
                events=["job_failed", "task_failed", "worker_lost"],
                name="troubles",
                kafka_conn_id=KAFKA,
            ),
        )
    ],
)

# [START howto_on_events]
with DAG("example_on_trouble", schedule=[troubles], catchup=False, tags=["example", "cospark"]):

    @task(inlets=[troubles])
    def tell(triggering_asset_events: Any = None, inlet_events: Any = None) -> list[dict[str, Any]]:
        """Called with all that has happened since the last run."""
        events = told_once(triggering_asset_events, inlet_events)
        for event in events:
            print(f"group {event['group']}: {event['event']}: {event}")
        return events

    tell()
# [END howto_on_events]

counted = Asset(
    "counted",
    watchers=[
        AssetWatcher(
            name="counted",
            trigger=GroupEventTrigger(
                group=GROUP, events=["job_finished"], job="count", name="counted", kafka_conn_id=KAFKA
            ),
        )
    ],
)

# [START howto_after_job]
with DAG("example_after_job", schedule=[counted], catchup=False, tags=["example", "cospark"]):

    @task(inlets=[counted])
    def use_it(triggering_asset_events: Any = None, inlet_events: Any = None) -> list[str]:
        """Called for each run of the job that has finished; a slow scheduler may give several of them together."""
        return [event["run_key"] for event in told_once(triggering_asset_events, inlet_events)]

    use_it()
# [END howto_after_job]
