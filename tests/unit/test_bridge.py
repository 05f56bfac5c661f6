"""The url of a bridge."""

from __future__ import annotations

import pytest

from airflow_provider.protocol.bridge import bridge_url, stands_for
from airflow_provider.protocol.model import Epoch


@pytest.mark.parametrize("workers", [1, 2, 999_999])
def test_it_says_for_how_many_workers_it_stands(workers: int) -> None:
    assert stands_for(bridge_url(workers, Epoch(7))) == workers


@pytest.mark.parametrize(
    "url", ["", "bridge", "bridge:0:1", "bridge:-2:1", "bridge:1000000000:1", "https://a/bridge:2:1"]
)
def test_whatever_else_it_says_it_stands_for_one(url: str) -> None:
    assert stands_for(url) == 1
