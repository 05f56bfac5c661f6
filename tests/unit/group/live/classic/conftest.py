"""What a membership that a test drives speaks to."""

from __future__ import annotations

import pytest
from stand_ins import MemoryTopics, SlowCoordinator


@pytest.fixture
async def coordinator() -> SlowCoordinator:
    return SlowCoordinator()


@pytest.fixture
async def topics() -> MemoryTopics:
    return MemoryTopics()
