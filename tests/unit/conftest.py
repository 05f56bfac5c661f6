"""Which of the unit tests say how much of the code is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those with random values do not: what they come across is another time something else, and to watch each line of
    so many examples takes several times as long as they do.
    """
    for item in items:
        if item.path.is_relative_to(_HERE) and getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.no_cover)
