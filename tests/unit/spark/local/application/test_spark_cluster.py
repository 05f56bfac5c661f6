"""What is said where a worker shares a standalone cluster with others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.spark.local.application.cluster import warn_of_unlimited_cores


@pytest.mark.parametrize(
    ("master", "named", "warned"),
    [
        ("spark://there:7077", {}, True),
        ("spark://there:7077", {"spark.cores.max": "2"}, False),
        ("spark://there:7077", {"spark.dynamicAllocation.enabled": "false"}, True),
        ("spark://there:7077", {"spark.dynamicAllocation.enabled": "true"}, False),
        ("local[2]", {}, False),
        ("k8s://there", {}, False),
    ],
)
def test_a_worker_that_may_take_all_cores_says_so_and_names_the_setting(
    master: str, named: dict[str, str], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    conf: Any = SimpleNamespace(contains=named.__contains__, get=named.get)
    warn_of_unlimited_cores(master, conf)
    assert ("spark.cores.max is not set" in caplog.text) is warned
    assert (master in caplog.text) is warned
