"""The worker that stands in a classic group for all workers of the declarative group of the same name."""

from __future__ import annotations

import re
from typing import Final

from airflow_provider.protocol.model import Epoch, WorkerId

BRIDGE: Final = WorkerId("__bridge")
"""Nobody else has that name."""

_URL: Final = re.compile(r"bridge:([0-9]{1,6}):[0-9]+", re.ASCII)


def bridge_url(workers: int, epoch: Epoch) -> str:
    """What the bridge says in the place of its url, which every version of the embedded protocol has: for how many
    workers it stands; and what makes another one of it in each epoch, so that it joins again.
    """
    return f"bridge:{workers}:{epoch}"


def stands_for(url: str) -> int:
    """For how many workers; 1 if it does not say."""
    found = _URL.fullmatch(url)
    return max(1, int(found[1])) if found else 1
