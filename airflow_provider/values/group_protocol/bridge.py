"""The bridge: a worker that stands in a classic group for all workers of the declarative group of the same name."""

from __future__ import annotations

import re
from typing import Final

from airflow_provider.values.model import Epoch, WorkerId

BRIDGE: Final = WorkerId("__bridge")
"""The bridge's worker id; no other worker has it."""

_URL: Final = re.compile(r"bridge:([0-9]{1,6}):[0-9]+", re.ASCII)


def bridge_url(workers: int, epoch: Epoch) -> str:
    """Encode what the bridge sends as its url, a field that every version of the embedded protocol has.

    The epoch makes its metadata differ in each epoch, so that it joins again.

    :param workers: the number of workers for which the bridge stands
    """
    return f"bridge:{workers}:{epoch}"


def stands_for(url: str) -> int:
    """The number of workers for which a bridge with this url stands; 1 if the url does not say."""
    found = _URL.fullmatch(url)
    return max(1, int(found[1])) if found else 1
