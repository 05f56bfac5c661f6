from __future__ import annotations

from collections.abc import Iterator

import pytest
from referee import Referee, running_referee


@pytest.fixture(scope="session")
def referee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Referee]:
    """Java Kafka Connect's own classes; without a JDK the tests that ask for it fail and say so."""
    with running_referee(tmp_path_factory.mktemp("referee")) as referee:
        yield referee
