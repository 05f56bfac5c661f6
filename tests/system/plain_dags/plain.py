"""DAGs without this provider, for tests of Airflow itself."""

from __future__ import annotations

import time

from airflow.sdk import DAG, BaseHook, task

with DAG("plain"):

    @task
    def answer() -> int:
        print("the host is", BaseHook.get_connection("some_broker").host)
        return 42

    answer()

with DAG("sleeps"):

    @task
    def sleep() -> None:
        time.sleep(600)

    sleep()
