"""How often garbage is collected where workers are held."""

from __future__ import annotations

import gc

import pytest

from airflow_provider.integration.rare_collections import collect_rarely


@pytest.mark.parametrize(
    ("before", "after"),
    [((700, 10, 10), (10_000, 4, 10)), ((2_000, 10, 0), (10_000, 4, 0)), ((50_000, 3, 8), (50_000, 3, 8))],
)
def test_garbage_is_collected_less_often_and_never_more_often(
    before: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    found = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        for _ in range(2):
            collect_rarely()
            assert gc.get_threshold() == after
    finally:
        gc.set_threshold(*found)
